"""`microbudget holds`, and `holds release`."""

import re
from pathlib import Path

import pytest

from budget_cpython import SqliteLedger
from tests.cli.ops_ledger import OpsTerminal, make_ledger, printed, printed_json


def test_open_holds_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url = make_ledger(tmp_path)
    (row,) = printed(capsys, "holds", "--ledger", url).splitlines()[1:]
    assert row.startswith("acme/research  1 call + $0.12 ")
    assert row.endswith("job-1/step-2")
    assert printed(capsys, "holds", "trial", "--ledger", url) == "no hold is open\n"
    (hold,) = printed_json(capsys, "holds", "list", "acme", "--ledger", url)["holds"]
    assert hold["amounts"] == {"calls": 1, "nano_usd": 120_000_000}
    assert hold["expires_at"] - hold["taken_at"] in (3600, 3601)


def test_a_hold_fits_in_80_columns(tmp_path: Path) -> None:
    url = make_ledger(tmp_path)
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        held = {"usd": "0.05", "calls": 1, "tokens": 600}
        hold = ledger.reserve("acme/research/ann-of-the-night-shift", held, ttl=3600)
    with OpsTerminal("holds", "--ledger", url, NO_COLOR="1") as holds:
        assert holds.end() == 0
        said = re.sub("\x1b\\[[0-9;]*m", "", holds.said).splitlines()
    assert hold.id in "".join(said)
    assert max(map(len, said)) <= 80


def test_a_hold_is_released_and_that_is_noted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    ask = ("holds", "release", "job-1/step-2", "--ledger", url)
    assert "give --yes" in printed(capsys, *ask, code=2)
    assert printed(capsys, *ask, "--yes").splitlines() == [
        "job-1/step-2 on acme/research holds 1 call + $0.12",
        "released",
    ]
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        assert not ledger.open_holds()
        (event,) = ledger.events(kinds=["released"])
    assert event.account == "acme/research"
    assert event.details["hold"] == "job-1/step-2"
    assert event.details["by"].startswith("user ")


def test_unknown_and_settled_holds_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    assert "no open hold has the id 'x'" in printed(
        capsys, "holds", "release", "x", "--yes", "--ledger", url, code=2
    )
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        ledger.commit(ledger.hold("acme/research", "job-1/step-2"), {"calls": 1})
    ask = ("holds", "release", "job-1/step-2", "--account", "acme/research", "--yes")
    assert "is committed by now" in printed(capsys, *ask, "--ledger", url, code=2)


def test_an_id_that_two_accounts_have_needs_the_account(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        ledger.reserve("trial", {"tokens": 5}, key="job-1/step-2")
    ask = ("holds", "release", "job-1/step-2", "--yes", "--ledger", url)
    assert "give --account" in printed(capsys, *ask, code=2)
    assert "released" in printed(capsys, *ask, "--account", "trial")
