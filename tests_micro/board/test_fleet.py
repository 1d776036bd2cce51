"""A board that draws on a fleet's account: its name, what it leases, reports and gives back."""

import json

from budget_core.board.fleet import FleetBudget, chip_number
from budget_core.config import DailyBudgetConfig
from budget_core.daily_tracker import DailyBudgetTracker
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.http_client import DEVICE
from tests_micro.support import FakeClock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROW = {
    "account": "boards",
    "axis": "tokens",
    "window": "day",
    "limit": 9_000,
    "spent": 500,
    "held": 0,
    "begins_at": 1_899_993_600,
    "resets_at": 1_900_080_000,
}


class Settings:
    LEDGER = "http://host:8321"
    LEDGER_ACCOUNT = "boards"
    DEVICE = "pico"
    MAX_TOKENS: int | None = 3_000
    MAX_TURNS: int | None = 6
    CALL_TIMEOUT_S = 5


class Fleet:
    """A board at a service that a test can take away; `sent` has what it was sent."""

    def __init__(self) -> None:
        self.daily = DailyBudgetTracker(DailyBudgetConfig(50_000), clock=FakeClock(1_800_000_000))
        self.board = FleetBudget(Settings, None, self.daily)
        self.sent: list[tuple[str, Any]] = []
        self.reported: list[Any] = []
        self.is_up = True
        service: Any = self.board._service
        service._exchange = self._exchange
        self._headers = service._endpoint.headers

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> "tuple[int, bytes]":
        if not self.is_up:
            raise LedgerUnavailableError("down", None, False)
        said = json.loads(body.decode()) if body else {}
        self.sent.append((path, said.get("amounts") or said.get("actual")))
        self.reported += [json.loads(line[len(DEVICE) :]) for line in self._headers[1:]]
        if "/balance/" in path:
            return 200, json.dumps({"balances": [ROW]}).encode()
        held = {"path": self.board.account, "id": "k", "amounts": said.get("amounts", {})}
        held.update({"state": "held", "expires_at": 1_900_000_000, "actual": None})
        return 200, json.dumps(held).encode()


async def test_a_turn_leases_what_it_may_use_and_gives_back_the_rest() -> None:
    fleet = Fleet()
    ledger = fleet.board.ledger
    for _ in range(2):
        hold = await ledger.reserve("boards/pico", {"tokens": 700, "calls": 1})
        await ledger.commit(hold, {"tokens": 400, "calls": 1})
    fleet.daily.record({"total_tokens": 800})
    await fleet.board.end_turn()
    assert fleet.sent == [
        ("/v1/balance/boards/pico", None),
        ("/v1/reserve/boards/pico", {"tokens": 3_000, "calls": 6}),
        ("/v1/commit/boards/pico", {"tokens": 800, "calls": 2}),
    ]
    assert [one["spent"] for one in fleet.reported] == [0, 0, 800]
    assert fleet.reported[0]["cap"] == 50_000


async def test_what_cannot_be_given_back_goes_with_the_next_turn() -> None:
    fleet = Fleet()
    ledger = fleet.board.ledger
    await ledger.commit(await ledger.reserve("boards/pico", {"tokens": 700}), {"tokens": 400})
    fleet.is_up = False
    await fleet.board.end_turn()
    assert len(fleet.sent) == 2
    fleet.is_up = True
    await fleet.board.end_turn()
    assert fleet.sent[2:] == [("/v1/commit/boards/pico", {"tokens": 400})]


async def test_the_first_line_says_what_is_left_or_why_that_is_not_known() -> None:
    fleet = Fleet()
    assert await fleet.board.line() == "boards/pico: 8500 tokens per day left"
    fleet.is_up = False
    assert await fleet.board.line() == "boards/pico: down"


async def test_a_service_that_refuses_what_a_board_reports_does_not_end_its_chat() -> None:
    fleet = Fleet()
    service: Any = fleet.board._service

    async def refuse(*request: "Any") -> "tuple[int, bytes]":
        return 422, b'{"error": "invalid", "message": "spent is unknown"}'

    service._exchange = refuse
    assert await fleet.board.line() == "boards/pico: spent is unknown"


def test_a_chip_without_a_number_needs_a_name() -> None:
    try:
        number = chip_number()
    except ValueError:
        error = raises(ValueError, chip_number)
        assert "DEVICE of the settings must name this board" in str(error)
    else:
        assert number
