"""Tell what a board's budget stands at, loading little: the agent's program may be in memory."""

import gc

from budget_core.board.device import open_store
from budget_core.day_state import decode
from budget_core.day_window import DayWindow
from budget_core.errors import StoreError
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def report(settings: "Any") -> "dict[str, Any]":
    """Return what the store in `settings.STATE` holds, as numbers, words and `None`.

    - `spent`, `left`, `cap`: tokens of the day, as a restart would go on from: up to `ahead` of
      the spent ones are not used yet. A state that cannot be trusted stands for a day spent, but
      for `settings.ALLOWANCE`; `left` is `None` where `cap` is.
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
    spent, ahead, error = 0, 0, None
    try:
        stored = store.load()
        if stored is not None:
            day, tokens, stored_ahead, _, _, doubt, behind = decode(stored)
            if window.adopt(day, behind):
                ahead = stored_ahead
                spent = tokens + ahead
                error = "an earlier state of this day was not to be trusted" if doubt else None
    except (StoreError, ValueError) as failure:
        error = str(failure)
        spent = max(0, (cap or 0) - settings.ALLOWANCE)
    return {
        "spent": spent,
        "ahead": ahead,
        "left": None if cap is None else max(0, cap - spent),
        "cap": cap,
        "day": window.day,
        "resets_at": window.end,
        "slots": store.slots(),
        "error": error,
        "trusted": WALL.trusted,
        "heap": _heap(),
    }


def _heap() -> "list[int] | None":
    gc.collect()
    used = getattr(gc, "mem_alloc", None)
    free = getattr(gc, "mem_free", None)
    return None if used is None or free is None else [used(), free()]
