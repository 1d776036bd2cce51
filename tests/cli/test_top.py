"""`microbudget top`: a still picture, its keys, and the terminal that it is shown on."""

import termios
from pathlib import Path

import pytest

from budget_core.ledger.hold import Balance
from budget_cpython import SqliteLedger
from budget_cpython.cli.ops.screen import Screen, plain_text
from budget_cpython.cli.ops.top_view import TopView
from budget_cpython.ledger.journal import OpenHold
from tests.cli.ops_ledger import OpsTerminal, make_ledger, printed, printed_json

NOON = 1_700_006_400 + 43_200


def row(path: str, spent: int, limit: int = 100, axis: str = "calls") -> Balance:
    return Balance(path, axis, "day", limit, spent, 0, NOON - 43_200, NOON + 43_200)


def view_of(*rows: Balance) -> TopView:
    view = TopView("ledger.db")
    holds = [OpenHold("b", "1", {"calls": 1}, NOON - 5, NOON + 60)]
    view.update(rows, holds, NOON)
    return view


def order(view: TopView) -> list[str]:
    return [path for path, _ in view.rows()]


def test_a_still_picture_has_rates_and_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed(capsys, "top", "--once", "--ledger", make_ledger(tmp_path)).splitlines()
    assert said[1].startswith("5 accounts, 1 over, 1 near the end, 1 open hold")
    (line,) = [line for line in said if " 300 calls" in line]
    assert line.split()[0] == "acme/research"
    assert line.split()[-1] == "1"


def test_json_has_limits_and_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = printed_json(capsys, "top", "acme/research", "--ledger", make_ledger(tmp_path))
    assert {row["account"] for row in said["limits"]} == {"acme/research", "acme/research/ann"}
    assert [hold["id"] for hold in said["holds"]] == ["job-1/step-2"]


def test_without_a_terminal_it_asks_for_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed(capsys, "top", "--ledger", make_ledger(tmp_path), code=2)
    assert "give --once" in said


def test_keys_sort() -> None:
    view = view_of(row("a", 20), row("b", 60), row("c", 100), row("d", 100, 1000))
    assert order(view) == ["c", "b", "a", "d"]  # by the share of the limit that an hour spends
    orders = {}
    for key in "euhar":
        assert not view.press(key)
        orders[key] = order(view)
    assert orders == {
        "e": ["c", "b", "a", "d"],
        "u": ["c", "b", "a", "d"],
        "h": ["b", "c", "a", "d"],
        "a": ["a", "b", "c", "d"],
        "r": ["c", "b", "a", "d"],
    }
    assert view.press("q")


def test_a_filter_is_typed_kept_and_cleared() -> None:
    view = view_of(row("acme/Quick", 20), row("acme/slow", 60))
    assert not view.press("/")
    assert not view.press("quicx\x7fk")  # a `q` quits nothing here
    assert order(view) == ["acme/Quick"]
    assert "filter: " in plain_text(view.lines(Screen(), 24)[-1])
    assert not view.press("\r")
    assert not view.press("u")
    assert not view.press("\x1b[A")  # an arrow
    assert order(view) == ["acme/Quick"]
    assert not view.press("\x1b")
    assert len(order(view)) == 2
    assert view.press("q")


def test_it_fills_its_terminal_and_says_how_many_more_there_are() -> None:
    view = view_of(*(row(f"agent{number}", number) for number in range(50)))
    lines = [plain_text(line) for line in view.lines(Screen(), 20)]
    assert len(lines) == 20
    assert sum(line.startswith("agent") for line in lines) == 13
    assert "37 more" in lines
    assert lines[-1].endswith("q quit  by rate")


def test_a_rate_follows_what_was_spent_since() -> None:
    view = view_of(row("a", 20))
    view.update([row("a", 30)], [], NOON + 60)
    ((_, status),) = view.rows()
    assert status.rate == 600
    assert status.empty_at == NOON + 60 + 420


def test_trouble_is_shown_in_place_of_the_summary() -> None:
    view = view_of(row("a", 20))
    view.trouble = "no answer"
    assert plain_text(view.lines(Screen(), None)[1]) == "the ledger does not answer: no answer"


def test_it_runs_on_a_terminal_and_gives_it_back(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    url = make_ledger(tmp_path)
    with OpsTerminal("top", "--every", "0.1", "--ledger", url) as top:
        top.until("q quit")
        with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
            ledger.set_limits("new/account", ledger.limits("trial"))
        top.until("new/account")  # it asks again
        top.type("/new\rq")
        top.until("\x1b[?1049l")  # the other screen is left
        assert top.end() == 0
        assert termios.tcgetattr(top.terminal) == top.before
