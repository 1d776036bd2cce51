"""Print the date of the board's clock, and whether it is believed."""
# mypy: ignore-errors

import json
import time

from budget_core.wall_clock import WALL

print(json.dumps({"date": time.gmtime()[:6], "trusted": WALL() > 0, "sync": WALL.needs_sync}))
