"""Print the date of the board's clock, and whether it is believed."""
# mypy: ignore-errors

import time

from budget_core.wall_clock import WALL


def _look():
    return {"date": time.gmtime()[:6], "trusted": WALL() > 0, "sync": WALL.needs_sync}
