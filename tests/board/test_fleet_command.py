"""`microbudget board fleet` lists the devices of a service."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.board.tables import devices_table
from budget_cpython.ledger.http import FleetDevice, HttpLedger
from budget_cpython.web.keys import RIGHTS, KeyFile
from tests.serve.support import MIDNIGHT, NOON, PATIENCE, Service

from .support import Cli


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that counts tokens only; yields its URL and a key for all."""
    folder = tmp_path_factory.mktemp("service")
    key = KeyFile(folder / "keys.json").add("operator", "*", RIGHTS)
    options = ("--engine", f"sqlite:{folder}/l.db", "--keys", folder / "keys.json")
    with Service(*options, "--axes", "tokens,calls", "--listen", "127.0.0.1:0") as running:
        yield running.url, key


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, without a board."""
    return Cli(None, capsys)  # type: ignore[arg-type]


def test_devices_are_listed_as_lines_and_as_json(
    service: tuple[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, key = service
    monkeypatch.setenv("MICROBUDGET_KEY", key)
    said = cli.bare("fleet", "--url", url)
    assert (said.code, said.out) == (0, "")
    assert said.err == "no device has reported to the service yet\n"
    with closing(HttpLedger(url, key, PATIENCE)) as ledger:
        ledger.set_limits("boards", [Limit("tokens", 10_000, "day")])
        ledger.report(1200, 50_000)
        ledger.reserve("boards/pico", {"tokens": 500})
    said = cli.bare("fleet", "--url", url)
    assert said.code == 0
    headings, line = said.out.splitlines()
    assert headings.split() == ["DEVICE", "LEFT", "ITS", "OWN", "DAY", "LAST", "CONTACT"]
    assert line.startswith("boards/pico  9500 tokens  1,200 of 50,000  ")
    monkeypatch.setenv("MICROBUDGET_LEDGER", url)
    (device,) = json.loads(cli.bare("fleet", "--json").out)
    seen = device.pop("seen_at")
    assert seen > NOON
    assert device == {
        "account": "boards/pico",
        "spent": 1200,
        "cap": 50_000,
        "resets_at": 0,
        "left": {"tokens": 9_500},
    }


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("http://127.0.0.1:1", 1, "error: http://127.0.0.1:1: the ledger: connection trouble"),
        ("nowhere", 2, "error: --url nowhere: the URL must be like"),
        ("", 2, "error: give the service with --url, or set $MICROBUDGET_LEDGER"),
    ],
)
def test_a_service_that_cannot_be_asked_is_an_error(
    cli: Cli, url: str, code: int, words: str
) -> None:
    said = cli.bare("fleet", "--url", url)
    assert said.code == code
    assert said.err.startswith(words)


def test_a_key_that_is_refused_is_an_error_without_the_key(
    service: tuple[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROBUDGET_KEY", "mb.operator.wrong")
    said = cli.bare("fleet", "--url", service[0])
    assert said.code == 1
    assert "401" in said.err
    assert "wrong" not in said.err


def test_a_day_that_is_over_counts_as_unused_and_contacts_are_in_words() -> None:
    day = FleetDevice(
        "a", NOON - 3 * 86_400, 1200, 50_000, MIDNIGHT, {"tokens": 5, "nano_usd": 10**9}
    )
    free = FleetDevice("b/long", NOON - 61, 7, None, 0, {})
    now = FleetDevice("c", NOON, 0, 0, 0, {"calls": 0})
    assert devices_table([day, free, now], NOON) == [
        "DEVICE  LEFT             ITS OWN DAY      LAST CONTACT",
        "a       $1.00, 5 tokens  1,200 of 50,000  2026-02-26 12:00 UTC, 3 d ago",
        "b/long  no limit         7 no limit       2026-03-01 11:58 UTC, 1 min ago",
        "c       0 calls          0 of 0           2026-03-01 12:00 UTC, now",
    ]
    assert "0 of 50,000" in devices_table([day], MIDNIGHT)[1]
