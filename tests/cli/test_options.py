"""The table of options, and what commands say of themselves."""

import argparse
from typing import Any

import pytest

from budget_cpython.cli import make_parser, options
from budget_cpython.cli.ops.report import FORMATS
from budget_cpython.cli.ops.status import HAS_LIMIT_OVER, MOST_LIMITS
from budget_cpython.ops.spending import COLUMNS
from budget_cpython.ops.suggestion import HEADROOM, LEAST_WINDOWS


def parsed(*arguments: str) -> argparse.Namespace:
    return make_parser(arguments[0]).parse_args(arguments)


def told(capsys: pytest.CaptureFixture[str], command: str) -> str:
    with pytest.raises(SystemExit):
        parsed(command, "--help")
    return " ".join(capsys.readouterr().out.split())


def test_each_row_is_of_some_command(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set()

    class Rows(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            used.add(key)
            return super().__getitem__(key)

    monkeypatch.setattr(options, "_ROWS", Rows(options._ROWS))
    make_parser()
    assert used == options._ROWS.keys()


def test_the_row_of_the_nearest_command_counts() -> None:
    assert parsed("top").every == 2
    assert parsed("alerts", "watch", "f").every == 10
    assert parsed("serve").listen == "127.0.0.1:8321"
    assert parsed("proxy", "--upstream", "a=b").listen == "127.0.0.1:8322"
    assert parsed("serve", "--keys", "f", "key", "list").keys == "f"


def test_a_form_says_how_a_value_is_read() -> None:
    given = parsed("proxy", "--upstream", "a=b", "--upstream", "c=d", "--wait", "0.5", "--expect=7")
    assert (given.upstream, given.wait, given.expect) == (["a=b", "c=d"], 0.5, 7)
    assert (given.upstream_key, given.repeats, given.strict, given.grace) == ([], None, False, 60)
    assert parsed("proxy", "--upstream", "a=b", "--expect", "learned").expect == "learned"
    assert parsed("limits", "remove", "a", "b").path == ["a", "b"]
    assert parsed("serve", "key", "add", "n", "--account", "*").rights == ["reserve", "read"]
    assert parsed("status").path == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("proxy",),  # without what is needed
        ("history",),
        ("completion", "fish"),
        ("top", "--every", "0"),
        ("history", "a", "--windows", "0"),
        ("serve", "--max-holds", "x"),
    ],
)
def test_what_has_another_form_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*arguments)
    assert ended.value.code == 2


def test_a_row_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_OPTIONS", "\nrun budget  limits\n")
    with pytest.raises(ValueError, match="has the row 'run budget'"):
        options._rows()


def test_help_and_defaults_have_the_numbers_that_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed("suggest").headroom == HEADROOM
    assert f"where {LEAST_WINDOWS} windows or more are known" in told(capsys, "suggest")
    said = told(capsys, "status")
    assert f"Of more than {MOST_LIMITS} limits" in said
    assert f"exit with {HAS_LIMIT_OVER} if a limit is over" in said
    said = told(capsys, "report")
    assert f"of {', '.join(COLUMNS)} (account,model)" in said
    assert f"{{{','.join(FORMATS)}}}" in said
