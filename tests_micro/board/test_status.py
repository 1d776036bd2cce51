"""What `status` reads of a board, and how little it needs for that."""

import json
import os

from budget_core.board.device import open_store
from budget_core.board.status import report
from budget_core.config import DailyBudgetConfig
from budget_core.daily_tracker import DailyBudgetTracker
from budget_core.wall_clock import BUILT, DAY, WALL, WallClock
from tests_micro.support import FakeClock, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = BUILT // DAY * DAY + DAY + 43_200


class Settings:
    STATE = ""
    DAILY_BUDGET: "int | None" = 1000
    RESET_HOUR_UTC = 0
    ALLOWANCE = 0


class Board:
    """A board's state in a folder, with a wall clock of its own."""

    def __init__(self, path: str, now: int = NOON) -> None:
        self.settings = Settings()
        self.settings.STATE = path + "/budget"
        self.clock = FakeClock(now)

    def use(self, tokens: int, write_ahead: int = 0) -> None:
        """Have a program on the board use some tokens, and end without a flush."""
        config = DailyBudgetConfig(self.settings.DAILY_BUDGET)
        wall = WallClock(self.clock)
        store = open_store(self.settings)
        DailyBudgetTracker(config, wall, store, None, write_ahead).record({"total_tokens": tokens})

    def report(self) -> "dict[str, Any]":
        """Return what `status` says, as it comes over the wire."""
        module: Any = __import__("budget_core.board.status", None, None, ("WALL",))
        try:
            module.WALL = WallClock(self.clock)
            reported: dict[str, Any] = json.loads(json.dumps(report(self.settings)))
        finally:
            module.WALL = WALL
        return reported


def test_a_new_board_has_spent_nothing() -> None:
    with temp_folder() as path:
        reported = Board(path).report()
    assert (reported["spent"], reported["left"], reported["cap"]) == (0, 1000, 1000)
    assert reported["slots"] == ["missing", "missing", "missing"]
    assert reported["error"] is None
    assert reported["trusted"] is True
    assert reported["day"] == NOON // DAY
    assert reported["resets_at"] == (NOON // DAY + 1) * DAY


def test_what_was_spent_is_reported_with_the_slots() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300)
        board.use(400)
        reported = board.report()
    assert (reported["spent"], reported["left"], reported["ahead"]) == (700, 300, 0)
    assert sorted(reported["slots"]) == ["empty", "newest", "older"]


def test_what_is_written_ahead_counts_as_a_restart_counts_it() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300, write_ahead=200)
        reported = board.report()
        assert reported["spent"] == 300 + reported["ahead"]
        assert 0 < reported["ahead"] <= 200
        board.use(0)
        assert board.report()["spent"] == reported["spent"]


def test_more_than_the_cap_leaves_nothing() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(1700)
        reported = board.report()
    assert (reported["spent"], reported["left"]) == (1700, 0)


def test_an_unlimited_day_has_no_rest() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.settings.DAILY_BUDGET = None
        board.use(1700)
        reported = board.report()
    assert (reported["spent"], reported["left"], reported["cap"]) == (1700, None, None)


def test_the_day_before_is_over() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300)
        board.clock.advance(DAY)
        reported = board.report()
    assert (reported["spent"], reported["day"]) == (0, NOON // DAY + 1)


def test_an_unset_clock_leaves_the_stored_day_standing() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300)
        board.clock.now = 0
        reported = board.report()
    assert reported["trusted"] is False
    assert (reported["spent"], reported["day"]) == (300, NOON // DAY)
    assert reported["resets_at"] == (NOON // DAY + 1) * DAY


def test_a_damaged_state_counts_as_spent_and_says_why() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300)
        for slot in ("0", "1", "2"):
            with open(f"{board.settings.STATE}/{slot}/state.json", "wb") as file:
                file.write(b"x" * 128)
        reported = board.report()
        assert (reported["spent"], reported["left"]) == (1000, 0)
        assert "damaged, damaged, damaged" in reported["error"]
        assert reported["slots"] == ["damaged", "damaged", "damaged"]
        board.settings.ALLOWANCE = 100
        assert board.report()["left"] == 100
        board.use(10)
        assert board.report()["left"] == 90
        assert "was damaged" in board.report()["error"]


def test_a_state_of_something_else_counts_as_spent() -> None:
    with temp_folder() as path:
        board = Board(path)
        open_store(board.settings).save({"tokens": 3})
        reported = board.report()
    assert (reported["left"], bool(reported["error"])) == (0, True)


def test_asking_changes_nothing_on_the_board() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.report()
        assert __import__("os").listdir(path) == []


def test_a_slot_that_cannot_be_read_is_reported_and_no_error() -> None:
    with temp_folder() as path:
        board = Board(path)
        board.use(300)
        os.remove(board.settings.STATE + "/2/state.json")
        os.mkdir(board.settings.STATE + "/2/state.json")
        reported = board.report()
    assert reported["slots"][2] == "unreadable"
    assert (reported["spent"], reported["error"]) == (300, None)


def test_a_state_whose_fields_are_no_numbers_counts_as_spent() -> None:
    for state in ({"x": "y"}, {}, {"tokens": -500}, {"day": None}):
        with temp_folder() as path:
            board = Board(path)
            open_store(board.settings).save(state or {"tokens": "5"})
            reported = board.report()
        assert reported["left"] == 0, state
        assert "not this budget's state" in reported["error"], state
