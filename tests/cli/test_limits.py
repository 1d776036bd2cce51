"""`microbudget limits`: shown, set, removed, imported and exported."""

import time
from pathlib import Path

import pytest

from budget_cpython import Limit, SqliteLedger, parse_limits
from tests.cli.ops_ledger import LIMITS, OpsTerminal, make_ledger, printed, printed_json


def limits_in(url: str) -> dict[str, list[Limit]]:
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        return {path: ledger.limits(path) for path in ledger.accounts()}


def test_limits_are_shown_as_a_line_has_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed(capsys, "limits", "show", "acme/support", "--ledger", make_ledger(tmp_path))
    assert said.splitlines()[1].split("  ") == ["acme/support", "500 calls + 20 tool:search"]


@pytest.mark.parametrize(("command", "code"), [("show", 0), ("export", 2)])
def test_a_path_without_limits_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, code: int
) -> None:
    url = make_ledger(tmp_path)
    said = printed(capsys, "limits", command, "acme/nobody", "--ledger", url, code=code)
    assert "no account at or below 'acme/nobody' has limits" in said


def test_set_shows_what_changes_and_changes_it_with_yes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    line = "$25 + 300 calls"
    said = printed(capsys, "limits", "set", "acme/research", line, "--yes", "--ledger", url)
    assert said.splitlines() == [
        "acme/research",
        "    300 calls",
        "  - $20",
        "  + $25",
        "1 account changed",
    ]
    assert set(limits_in(url)["acme/research"]) == set(parse_limits(line))
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        (event,) = ledger.events("acme/research", ["limits"])[-1:]
    assert event.details["by"].startswith("user ")


def test_nobody_is_asked_off_a_terminal_and_nothing_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    before = limits_in(url)
    said = printed(capsys, "limits", "set", "acme", "$1", "--ledger", url, code=2)
    assert "give --yes" in said
    printed(capsys, "limits", "set", "acme", "$1", "--dry-run", "--ledger", url)
    assert limits_in(url) == before


@pytest.mark.parametrize(("answer", "code", "cap"), [("y", 0, "$1"), ("n", 1, "$100")])
def test_on_a_terminal_it_asks(tmp_path: Path, answer: str, code: int, cap: str) -> None:
    url = make_ledger(tmp_path)
    with OpsTerminal("limits", "set", "acme", "$1", "--ledger", url) as command:
        command.until("Do it? [y/N] ")
        command.type(f"{answer}\n")
        assert command.end() == code
    assert limits_in(url)["acme"] == parse_limits(cap)


def test_what_the_parser_refuses_is_refused_in_its_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    with pytest.raises(ValueError, match="cals") as refused:
        parse_limits("5 cals/day")
    said = printed(capsys, "limits", "set", "acme", "5 cals/day", "--yes", "--ledger", url, code=2)
    assert said == f"error: {refused.value}\n"


def test_limits_that_are_set_already_change_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    assert printed(capsys, "limits", "set", "acme", "$100", "--ledger", url) == (
        "nothing would change\n"
    )


def test_a_window_that_a_wrong_clock_began_goes_back_with_what_was_spent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    with SqliteLedger(path) as ledger:
        ledger.set_limits("acme", parse_limits("$5/day"))
        ledger.charge("acme", {"usd": "2.00"})
    in_a_month = time.time() + 31 * 86_400
    with SqliteLedger(path, clock=lambda: in_a_month) as ledger:
        ledger.charge("acme", {"usd": "1.00"})
    ask = ("limits", "set", "acme", "$5/day", "--ledger", f"sqlite:{path}")
    assert "began its window in the future" in printed(capsys, *ask, "--dry-run")
    assert printed(capsys, *ask, "--yes").splitlines()[1:] == [
        "acme: a wrong clock began its window in the future: it goes back",
        "1 account changed",
    ]
    with SqliteLedger(path) as ledger:
        (row,) = ledger.balance("acme")
    assert row.resets_at is not None
    assert row.begins_at <= time.time() < row.resets_at
    assert row.spent >= 1_000_000_000
    assert printed(capsys, *ask) == "nothing would change\n"


def test_set_makes_the_default_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    assert "(new)" in printed(capsys, "limits", "set", "acme", "$5/day", "--yes")
    assert printed_json(capsys, "limits", "show") == {
        "acme": [{"axis": "nano_usd", "limit": 5_000_000_000, "window": "day"}]
    }


def test_remove_takes_accounts_away(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url = make_ledger(tmp_path)
    printed(capsys, "limits", "remove", "trial", "acme/support", "--yes", "--ledger", url)
    assert sorted(limits_in(url)) == ["acme", "acme/research", "acme/research/ann"]
    assert "has no limits" in printed(
        capsys, "limits", "remove", "trial", "--yes", "--ledger", url, code=2
    )


def test_what_is_exported_can_be_imported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        ledger.set_limits(
            "counted", [Limit("tokens", None, "day"), Limit("usd", None), Limit("calls", 5)]
        )
    file, other = tmp_path / "limits.toml", f"sqlite:{tmp_path / 'other.db'}"
    printed(capsys, "limits", "export", "--output", str(file), "--ledger", url)
    printed(capsys, "limits", "import", str(file), "--yes", "--ledger", other)
    assert limits_in(other) == limits_in(url)
    assert printed(capsys, "limits", "export", "--ledger", other) == file.read_text()


def test_import_leaves_accounts_that_the_file_does_not_name_but_for_prune(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, file = make_ledger(tmp_path), tmp_path / "limits.toml"
    file.write_text('[accounts.acme]\nlimit = "$50"\nnotices = true\n')
    printed(capsys, "limits", "import", str(file), "--yes", "--ledger", url)
    assert sorted(limits_in(url)) == sorted(LIMITS)
    said = printed_json(capsys, "limits", "import", str(file), "--prune", "--yes", "--ledger", url)
    assert [row["account"] for row in said["changes"]] == sorted(set(LIMITS) - {"acme"})
    assert said["applied"]
    assert limits_in(url) == {"acme": [Limit("usd", "50")]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[accounts.acme", "is not TOML"),
        ("[account.acme]\nlimit = '$5'", "has 'account'"),
        ("[accounts.acme]\nlimits = '$5'", "named 'limit'"),
        ("[accounts.acme]\nlimit = '5 cals'", "limit of account 'acme': '5 cals' limits nothing"),
        ("[accounts.acme]\ncounted = 'tokens'", "counted of account 'acme'"),
        ("[accounts.'a b']\nlimit = '$5'", "path must be"),
        ("accounts = 3", "must be tables"),
        ("[prices.x]\ninput = '1'", "has no limits"),
    ],
)
def test_a_malformed_file_is_refused_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, why: str
) -> None:
    url, file = make_ledger(tmp_path), tmp_path / "limits.toml"
    before = limits_in(url)
    file.write_text(text)
    assert why in printed(capsys, "limits", "import", str(file), "--yes", "--ledger", url, code=2)
    assert limits_in(url) == before
