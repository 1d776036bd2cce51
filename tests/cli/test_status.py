"""`microbudget status`: what stands on an SQLite ledger, as text and as JSON."""

import re
from pathlib import Path

import pytest

from budget_core.ledger.hold import Balance
from budget_cpython import BudgetExceededError, Limit, SqliteLedger
from budget_cpython.cli.ops.screen import Screen, plain_text
from budget_cpython.cli.ops.status import HAS_LIMIT_OVER, MOST_LIMITS, status_lines
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ops.account_tree import accounts_of
from tests.cli.ops_ledger import OpsTerminal, make_ledger, printed, printed_json

NOON = 1_700_006_400 + 43_200


def test_it_shows_the_tree_with_what_is_spent_held_and_left(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed(capsys, "status", "--ledger", make_ledger(tmp_path)).splitlines()
    assert said[0] == "5 accounts, 1 over, 1 near the end"
    heads = ["ACCOUNT", "LIMIT", "USED", "SPENT", "HELD", "LEFT", "RESETS", "IN", "EMPTY", "IN"]
    assert said[2].split() == heads
    rows = [" ".join(line.split()) for line in said[3:]]
    assert rows == [
        "acme $100 #........... 2% $2.50 $0.12 $97.38 never",
        "research 300 calls #........... 1% 3 1 296 never",
        "$20 #........... 12% $2.50 $0.12 $17.38 never",
        "ann $2 ############ 125% $2.50 - $0.00 never over",
        "support 500 calls ##########.. 84% 420 - 80 never",
        "20 tool:search ............ 0% 0 - 20 never",
        "trial 1000 tokens ............ 0% 0 - 1,000 never",
    ]
    assert said[6].startswith("    ann ")


def test_a_path_selects_its_account_those_below_and_those_above(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed_json(capsys, "status", "acme/research", "--ledger", make_ledger(tmp_path))
    paths = [row["account"] for row in said["accounts"]]
    assert paths == ["acme", "acme/research", "acme/research/ann"]


def test_json_has_whole_numbers_and_the_state(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed_json(capsys, "status", "--ledger", make_ledger(tmp_path))
    (ann,) = [row for row in said["accounts"] if row["account"] == "acme/research/ann"]
    assert ann["state"] == "over"
    assert ann["limits"] == [
        {
            "account": "acme/research/ann",
            "axis": "nano_usd",
            "window": "run",
            "limit": 2_000_000_000,
            "spent": 2_500_000_000,
            "held": 0,
            "left": 0,
            "debt": 500_000_000,
            "begins_at": 0,
            "resets_at": None,
            "percent": 125,
            "state": "over",
            "rate_per_hour": None,
            "empty_at": None,
            "ends_early": False,
        }
    ]


def test_check_tells_by_the_exit_code_that_a_limit_is_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    printed(capsys, "status", "--check", "--ledger", url, code=HAS_LIMIT_OVER)
    printed(capsys, "status", "acme/support", "--check", "--ledger", url)


def test_the_default_ledger_is_shown_and_never_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no ledger" in printed(capsys, "status", code=1)
    assert "there is no ledger" in printed(capsys, "status", code=1)
    monkeypatch.setenv("MICROBUDGET_ENGINE", make_ledger(tmp_path))
    assert "5 accounts" in printed(capsys, "status")


def test_a_ledger_in_memory_and_an_unknown_account_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "each process's own" in printed(capsys, "status", "--ledger", "memory:", code=2)
    said = printed(capsys, "status", "nobody", "--ledger", make_ledger(tmp_path), code=1)
    assert "no account 'nobody'" in said


def test_an_empty_ledger_says_how_to_set_limits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "empty.db"
    with SqliteLedger(path) as ledger:
        ledger.accounts()
    assert "microbudget limits set" in printed(capsys, "status", "--ledger", f"sqlite:{path}")


def test_of_many_limits_those_nearest_their_end_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "many.db"
    with SqliteLedger(path) as ledger:
        for number in range(60):
            ledger.set_limits(f"org/agent{number}", [Limit("calls", 1000)])
            ledger.charge(f"org/agent{number}", {"calls": 10 * number})
    said = printed(capsys, "status", "--ledger", f"sqlite:{path}").splitlines()
    shown = [line.split()[0] for line in said if line.startswith("org/")]
    assert shown == [f"org/agent{number}" for number in range(59, 59 - MOST_LIMITS, -1)]
    assert said[-1].startswith("20 limits further from their end are not shown")
    said = printed(capsys, "status", "--all", "--ledger", f"sqlite:{path}").splitlines()
    assert sum(line.startswith("org/") for line in said) == 60


def test_a_limit_that_will_be_empty_before_its_reset_says_when() -> None:
    half = Balance("org", "calls", "day", 100, 70, 0, NOON - 43_200, NOON + 43_200)
    lines = status_lines(accounts_of([half], NOON), NOON, Screen(), False)
    said = [plain_text(line) for line in lines]
    assert said[0] == "1 account, 1 empty before the reset"
    assert said[-1].endswith("12 h  5 h 9 min")


def test_limits_that_are_fine_say_so() -> None:
    fine = Balance("org", "calls", "day", None, 70, 0, NOON - 43_200, NOON + 43_200)
    said = [
        plain_text(line) for line in status_lines(accounts_of([fine], NOON), NOON, Screen(), False)
    ]
    assert said[0] == "1 account, no limit is near its end"
    assert "all calls/day" in said[-1]


def test_alerts_that_were_not_delivered_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    assert printed_json(capsys, "status", "--ledger", url)["alerts"] == []
    with SqliteLedger(tmp_path / "ledger.db") as ledger:
        for attempt, state in ((1, "delivered"), (7, "dead"), (2, "failed")):
            said = {
                "of": f"threshold/acme/{attempt}",
                "number": attempt,
                "to": "desk",
                "attempt": attempt,
                "state": state,
                "until": 0,
                "reason": "HTTP 503",
            }
            name = f"alert/{attempt}/desk/{attempt}/{state}"
            ledger.note([LedgerEvent("alert", "acme", said, name)])
    lines = printed(capsys, "status", "--ledger", url).splitlines()[-5:]
    assert lines[0] == "2 alerts not delivered: 1 to be tried again, 1 dead"
    assert lines[2].split() == [
        "CHANNEL", "ACCOUNT", "ALERT", "STATE", "TRIES", "SINCE", "REASON"
    ]  # fmt: skip
    assert lines[3].split()[:5] == ["desk", "acme", "threshold", "failed", "2"]
    assert lines[4].split()[:5] == ["desk", "acme", "threshold", "dead", "7"]
    assert lines[4].endswith(" UTC  HTTP 503")
    found = printed_json(capsys, "status", "acme", "--ledger", url)["alerts"]
    assert [(one["to"], one["state"]) for one in found] == [("desk", "failed"), ("desk", "dead")]
    assert printed_json(capsys, "status", "trial", "--ledger", url)["alerts"] == []


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_has_colours_unless_they_are_not_wanted(
    tmp_path: Path, environment: dict[str, str], coloured: bool
) -> None:
    pytest.importorskip("rich")
    with OpsTerminal("status", "--ledger", make_ledger(tmp_path), **environment) as status:
        assert status.end() == 0
    assert ("\x1b[38;5;" in status.said) == coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", status.said)
    assert "5 accounts, 1 over" in plain
    assert max(map(len, plain.splitlines())) <= 80


def test_calls_refused_in_the_last_hour_are_shown_with_the_limit_that_stops_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    limit = {"account": "acme/research", "axis": "calls", "window": "run", "cap": 300}
    limit |= {"spent": 3, "held": 1, "resets_at": None}
    details = {"limit": limit, "asked": 297, "times": 1_200}
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        with pytest.raises(BudgetExceededError):
            ledger.reserve("acme/research/ann", {"usd": "0.10"})
        ledger.note([LedgerEvent("observed", "acme/research/bob", {**details, "would": "cutoff"})])
    said = printed(capsys, "status", "--ledger", url).splitlines()
    first = "1 call refused in the last hour, "
    first += "1,200 calls made in the last hour that cutoff would have refused"
    at = said.index(first)
    assert [" ".join(line.split()) for line in said[at + 2 : at + 5]] == [
        "ACCOUNT LIMIT OF CALLS LAST",
        "acme/research/bob 300 calls acme/research 1,200 3 spent, 1 held; asked for 297 calls",
        "acme/research/ann $2 1 $2.50 spent; asked for $0.10",
    ]
    rows = printed_json(capsys, "status", "acme/research", "--ledger", url)["refused"]
    assert [(row["account"], row["kind"], row["times"]) for row in rows] == [
        ("acme/research/ann", "refused", 1),
        ("acme/research/bob", "observed", 1_200),
    ]
    assert rows[1]["limit"] == limit
