"""`microbudget backup` and `microbudget charge`."""

import shutil
from pathlib import Path

import pytest

from budget_cpython import SqliteLedger
from tests.cli.ops_ledger import make_ledger, printed, printed_json


def spent(url: str, path: str) -> dict[str, int]:
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        return {row.axis: row.spent for row in ledger.balance(path) if row.account == path}


def test_a_copy_has_what_the_ledger_had(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url, copy = make_ledger(tmp_path), tmp_path / "copy.db"
    with SqliteLedger(url.removeprefix("sqlite:")) as in_use:
        in_use.charge("trial", {"tokens": 7})
        assert printed(capsys, "backup", str(copy), "--ledger", url).startswith(f"{copy}: ")
        in_use.charge("trial", {"tokens": 1})
    assert copy.stat().st_mode & 0o777 == 0o600
    assert spent(f"sqlite:{copy}", "trial") == {"tokens": 7}


def test_a_copy_never_replaces_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url, copy = make_ledger(tmp_path), tmp_path / "copy.db"
    said = printed_json(capsys, "backup", str(copy), "--ledger", url)
    assert said == {"file": str(copy), "bytes": copy.stat().st_size}
    before = copy.read_bytes()
    assert "exists" in printed(capsys, "backup", str(copy), "--ledger", url, code=1)
    assert copy.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("sqlite:none.db", 1, "there is no ledger"),
        ("redis://127.0.0.1:1", 2, "redis-cli --rdb"),
        ("postgresql:///none", 2, "pg_dump"),
        ("http://127.0.0.1:1", 2, "where the service runs"),
    ],
)
def test_what_cannot_be_copied_is_refused_and_no_file_is_left(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str, code: int, words: str
) -> None:
    copy = tmp_path / "copy.db"
    assert words in printed(capsys, "backup", str(copy), "--ledger", url, code=code)
    assert not copy.exists()


def test_a_charge_counts_past_the_limit_and_is_noted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    ask = ("charge", "acme/research/ann", "$3.20 + 40 calls", "--ledger", url)
    assert "give --yes" in printed(capsys, *ask, code=2)
    assert spent(url, "acme/research")["calls"] == 3
    assert printed(capsys, *ask, "--yes").splitlines() == [
        "acme/research/ann is charged $3.20 + 40 calls",
        "recorded",
    ]
    assert spent(url, "acme/research/ann") == {"nano_usd": 5_700_000_000}
    assert spent(url, "acme/research")["calls"] == 43
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        (event,) = ledger.events(kinds=["charged"])
    assert event.account == "acme/research/ann"
    assert event.details["amounts"] == {"nano_usd": 3_200_000_000, "calls": 40}
    assert event.details["by"].startswith("user ")


def test_a_charge_with_a_key_is_recorded_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    ask = ("charge", "trial", "7 tokens", "--key", "invoice-1", "--yes", "--ledger", url)
    assert [printed_json(capsys, *ask)["recorded"] for _ in range(2)] == [True, False]
    assert "recorded before" in printed(capsys, *ask)
    assert spent(url, "trial") == {"tokens": 7}
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        assert len(ledger.events(kinds=["charged"])) == 1


@pytest.mark.parametrize("amounts", ["$5/day", "40", "3 apples", "10 min"])
def test_amounts_have_no_window(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, amounts: str
) -> None:
    url = make_ledger(tmp_path)
    before = shutil.copy(tmp_path / "ledger.db", tmp_path / "before.db")
    printed(capsys, "charge", "trial", amounts, "--yes", "--ledger", url, code=2)
    assert spent(url, "trial") == spent(f"sqlite:{before}", "trial")
