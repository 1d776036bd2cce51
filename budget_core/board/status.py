"""Report a board's budget, loading little: the agent's program may be in memory."""

import gc

from budget_core.board.device import open_store
from budget_core.day import NAMES, DayWindow, spent_at_worst
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def report(settings: "Any") -> "dict[str, Any]":
    """Return what the store in `settings.STATE` holds, as numbers, words and `None`.

    - `spent`, `left`, `cap`: tokens of the day, as after a restart: up to `ahead` of the spent
      ones are not used yet. A state that cannot be trusted or read counts as a day spent, but for
      `settings.ALLOWANCE`; `left` is `None` where `cap` is.
    - `day`: its number, counted from 1970, 0 while no date was known; `resets_at`: the Unix time
      at which it ends.
    - `slots`: a word for each: newest, older, empty, damaged, unreadable or missing.
    - `error`: why the state cannot be trusted or read, or `None`.
    - `trusted`: whether the clock is believed now.
    - `heap`: bytes of heap in use and free, where the port can tell.
    """
    store = open_store(settings)
    window = DayWindow(WALL, settings.RESET_HOUR_UTC)
    cap = settings.DAILY_BUDGET
    state, doubt, failure = window.load(store, NAMES, len(NAMES))
    error = doubt or failure
    ahead = spent = 0
    if state is not None:
        ahead = state["ahead"]
        spent = state["tokens"] + ahead
    elif error is not None:
        spent = spent_at_worst(store, cap)
    return {
        "spent": spent,
        "ahead": ahead,
        "left": None if cap is None else max(0, cap - spent),
        "cap": cap,
        "day": window.day,
        "resets_at": window.end,
        "slots": store.slots(),
        "error": None if error is None else str(error),
        "trusted": WALL() > 0,
        "heap": _heap(),
    }


def _heap() -> "list[int] | None":
    gc.collect()
    used = getattr(gc, "mem_alloc", None)
    free = getattr(gc, "mem_free", None)
    return None if used is None or free is None else [used(), free()]
