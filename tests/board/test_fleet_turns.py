"""Boards that draw on the budget of a fleet, at a real service."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.known_boards import find_board
from budget_cpython.cli import main
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import RIGHTS, KeyFile
from scripted_model import ScriptedEndpoint
from tests.board.emulator.client import PATIENCE, Terminal
from tests.board.emulator.noon import NoonBoard
from tests.ports import kept_port
from tests.serve.support import Service

from .conftest import patient
from .test_turns import PROMPT, QUESTION, chat_on

BLOCK = 12_000  # MAX_TOKENS of boards/unix/settings.py


@dataclass
class Fleet:
    """A service with an account for all boards, and a board that draws on it."""

    ledger: HttpLedger
    endpoint: ScriptedEndpoint
    board: UnixBoard
    service: Service
    options: tuple[str, ...]
    before: int = 0

    def allow(self, tokens: int) -> None:
        """Begin anew, with so many tokens for the fleet today."""
        self.ledger.set_limits("boards", [])
        self.before = len(self.endpoint.answers)
        self.ledger.set_limits("boards", [Limit("tokens", tokens, "day")])

    def balance(self) -> Balance:
        """Return what counts against the day of the fleet."""
        (row,) = self.ledger.balance("boards")
        return row

    def used(self) -> int:
        """Return what the model has reported since then."""
        answers = self.endpoint.answers[self.before :]
        found = [answer.usage for answer in answers if answer.usage]
        return sum(usage.prompt + usage.completion for usage in found)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, core_built_once: None) -> Iterator[Fleet]:
    """The unix board, deployed with a LEDGER in its settings."""
    folder = tmp_path_factory.mktemp("fleet")
    keys = KeyFile(folder / "keys.json")
    operator = keys.add("operator", "*", RIGHTS)
    key = keys.add("unix", "boards/unix", ["reserve", "charge", "read"])
    with (
        patient(),
        kept_port() as port,
        ExitStack() as services,
        ScriptedEndpoint() as endpoint,
        NoonBoard(folder / "flash.img", "512k") as board,
    ):
        place = ("--engine", f"sqlite:{folder / 'ledger.db'}", "--listen", f"127.0.0.1:{port}")
        options = (*place, "--keys", keys.path)
        service = services.enter_context(Service(*options))
        ledger = services.enter_context(closing(HttpLedger(service.url, operator, PATIENCE)))
        mine = folder / "mine"
        mine.mkdir()
        for source in find_board("unix").glob("*.py"):
            text = source.read_text().replace('LEDGER = ""', f'LEDGER = "{service.url}"')
            (mine / source.name).write_text(text)
        secret = folder / "secret.py"
        secret.write_text(f'BASE_URL = "{endpoint.base_url}"\nLEDGER_KEY = "{key}"\n')
        to = ("--port", board.port, "--secrets", str(secret), "--no-reset")
        assert main(["board", "deploy", str(mine), *to]) == 0
        yield Fleet(ledger, endpoint, board, service, options)


def test_a_turn_draws_on_the_fleet_and_gives_back_what_it_leased(fleet: Fleet) -> None:
    fleet.allow(20_000)
    fleet.board.power_on()
    with Terminal(fleet.board.port) as terminal:
        shown = terminal.read_until(PROMPT).decode()
        assert "boards/unix: 20000 tokens per day left" in shown
        for _ in range(2):
            shown = terminal.answer(QUESTION, PROMPT).decode()
            assert "tokens in 6 calls" in shown
            balance = fleet.balance()
            assert (balance.spent, balance.held) == (fleet.used(), 0)
    (device,) = fleet.ledger.devices()
    assert (device.account, device.spent, device.cap) == ("boards/unix", fleet.used(), 50_000)
    assert device.left == {"tokens": 20_000 - fleet.used()}
    assert device.resets_at > 0 == device.resets_at % 86_400


def test_a_turn_says_that_the_fleet_has_nothing_left(fleet: Fleet) -> None:
    fleet.allow(20_000)
    fleet.ledger.charge("boards/other", {"tokens": 19_990})
    fleet.board.power_on()
    with Terminal(fleet.board.port) as terminal:
        terminal.read_until(PROMPT)
        shown = terminal.answer(QUESTION, PROMPT).decode()
    assert "(token budget: 0 of 10 tokens (boards): per day, " in shown
    assert (fleet.used(), fleet.balance().spent) == (0, 19_990)


def test_a_board_whose_power_fails_in_a_turn_strands_at_most_a_lease(fleet: Fleet) -> None:
    fleet.allow(40_000)
    fleet.board.power_on(cut_power_after=2)
    with Terminal(fleet.board.port) as terminal:
        terminal.read_until(PROMPT)
        with pytest.raises(EOFError):
            chat_on(terminal)
    assert fleet.board.wait_for_power_cut(PATIENCE)
    balance = fleet.balance()
    assert fleet.used() <= balance.spent + balance.held <= fleet.used() + BLOCK
    fleet.board.power_on()
    with Terminal(fleet.board.port) as terminal:
        terminal.read_until(PROMPT)
        assert "tokens in 6 calls" in terminal.answer(QUESTION, PROMPT).decode()


def test_a_board_comes_back_by_itself_when_its_service_does(fleet: Fleet) -> None:
    fleet.allow(40_000)
    fleet.board.power_on()
    with Terminal(fleet.board.port) as terminal:
        terminal.read_until(PROMPT)
        fleet.service.end(signal.SIGKILL)
        shown = terminal.answer(QUESTION, PROMPT).decode()
        assert "error: LedgerUnavailableError: " in shown
        assert fleet.used() == 0
        with Service(*fleet.options):
            while "tokens in 6 calls" not in shown:
                shown = terminal.answer(QUESTION, PROMPT).decode()
            balance = fleet.balance()
            assert (balance.spent, balance.held) == (fleet.used(), 0)
