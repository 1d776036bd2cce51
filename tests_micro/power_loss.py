"""Cut the power at every block operation, once and twice, and look at what a restart finds.

    micropython tests_micro/power_loss.py JSON

A life is that of a chip with a daily budget in its flash, which records twelve calls; it begins
brand-new or with a few calls recorded. What each cut leaves is worked out from the operations noted
meanwhile. The chip then starts again and records the calls that are left, and each cut of that is
worked out as well. Wherever the power went, what is loaded must be sound, hold what was
acknowledged, and be above what was begun by at most the write-ahead allowance a cut.

JSON holds the arguments of `PowerLoss` by name, and `life`: "new" or "used". The last line printed
is JSON: what was counted, or what was `broken`; then it exits with 1.
"""

import json
import sys

if __name__ == "__main__":
    sys.path[0] = __file__.rpartition("/")[0] + "/.."

from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from tests_micro.flash import ROOT, TEAR, Flash, cuts, spoils
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests_micro.flash import Image

NOON = 19_675 * 86_400 + 43_200
PATH = ROOT + "/budget"
CONFIG = DailyBudgetConfig(daily_budget=1_000_000)
BEFORE = (7, 61, 30)
COSTS = (9, 40, 33, 50, 17, 120, 45, 8, 260, 31, 50, 26)
LIVES = ("used", "new")


class BrokenPromiseError(Exception):
    """What a cut left is not what was promised."""


class Spent:
    """What must be counted and what may be: that of calls acknowledged, and that of calls begun."""

    def __init__(self, least: int = 0, most: int = 0, kept: int = 0, begun: int = 0) -> None:
        self.least = least
        self.most = most
        self.kept = kept
        self.begun = begun

    def __repr__(self) -> str:
        return f"{self.least} to {self.most} tokens of {self.kept} to {self.begun} calls"

    def during(self, cost: int, allowance: int) -> "Spent":
        """Return what is spent while a call is made: half of the allowance was made sure of."""
        sure = cost if cost * 2 <= allowance else 0
        return Spent(self.least + sure, self.most + cost, self.kept, self.begun + 1)

    def after(self, cost: int) -> "Spent":
        """Return what is spent when a call was acknowledged."""
        return Spent(self.least + cost, self.most + cost, self.kept + 1, self.begun + 1)


class PowerLoss:
    """Cuts the power of one kind of chip, and adds up what it saw.

    `faults` are those of the first cut and the second, `allowance` is the tracker's write-ahead
    allowance. `tear` is how many bytes of a torn operation are done, `strides` how many operations
    apart the first cuts are, and the second.

    `single` and `double` count the cuts, `over` is the highest count above what was begun, `denied`
    counts the brand-new chips whose file system a cut destroyed before the budget was set up.
    """

    def __init__(
        self,
        kind: str,
        faults: "tuple[str, str]",
        allowance: int = 0,
        tear: int = TEAR,
        strides: "tuple[int, int]" = (1, 1),
    ) -> None:
        self.kind = kind
        self.faults = faults
        self.allowance = allowance
        self.tear = tear
        self.strides = strides
        self.single = self.double = self.over = self.denied = 0
        self._cuts: list[Any] = []

    def run(self, life: str) -> "dict[str, int]":
        """Cut the power of a chip that is brand-new, or used; return what was counted."""
        flash = Flash(self.kind)
        spent = Spent()
        if life == "used":
            spent = self._live(flash, spent, BEFORE) or spent
        self._cut(flash.image, spent, COSTS)
        return {
            "single": self.single,
            "double": self.double,
            "over": self.over,
            "denied": self.denied,
        }

    def _cut(self, image: "Image", spent: Spent, costs: "tuple[int, ...]") -> None:
        """Cut the power at each operation of the calls, or, after a cut, of what follows it."""
        flash = Flash(self.kind, image)
        log = flash.noted()
        if self._live(flash, spent, costs) is None:
            return
        number = len(self._cuts)
        fault, stride = self.faults[number], self.strides[number]
        for place, left, then in cuts(image, log, fault, flash.size, self.tear, stride):
            fatal = spoils(self.kind, fault) and not then.kept
            self._cuts.append((fatal, fault, place, log[place][0][:2]))
            if number == 0:
                self.single += 1
                self._cut(left, then, costs[then.begun - spent.begun :])
            else:
                self.double += 1
                self._live_on(left, then)
            self._cuts.pop()

    def _live_on(self, image: "Image", spent: Spent) -> None:
        flash = Flash(self.kind, image)
        after = self._live(flash, spent, COSTS[-1:])
        if after is not None:
            after.most += self.allowance  # a restart is a cut between two operations
            self._live(flash, after, ())

    def _live(self, flash: Flash, spent: Spent, costs: "tuple[int, ...]") -> Spent | None:
        """Start the chip and record calls; return what is spent then, or `None` if it denies."""
        with flash:
            flash.note = spent
            tracker = day_of(self.allowance)
            self.over = max(self.over, tracker.total_tokens - spent.most)
            for cost in costs:
                tracker.maybe_auto_reset()
                if not self._sound(tracker, spent):
                    return None
                flash.note = spent.during(cost, self.allowance)
                tracker.record({"total_tokens": cost})
                flash.note = spent = spent.after(cost)
            if not self._sound(tracker, spent):
                return None
            if costs is BEFORE:
                tracker.flush()
        return spent

    def _sound(self, tracker: "Any", spent: Spent) -> bool:
        """Tell whether the tracker counts on; only where FAT itself was destroyed it may deny."""
        problem = tracker.store_error or tracker.state_error
        destroyed = any(fatal for fatal, _, _, _ in self._cuts)
        if problem is not None and destroyed and tracker.is_at_limit():
            self.denied += 1
            return False
        most = spent.most + self.allowance * len(self._cuts)
        if problem is not None or not spent.least <= tracker.total_tokens <= most:
            raise BrokenPromiseError(
                f"{self.kind}, allowance {self.allowance}, cut at {self._cuts}: "
                f"{tracker.total_tokens} tokens counted, not {spent}, and {most} at most; "
                f"{problem!r}"
            )
        return True


def day_of(allowance: int) -> "Any":
    """Start the chip's program: return its budget."""
    store = FileBudgetStore(PATH)
    return DailyBudgetTracker(CONFIG, FakeClock(NOON), store, write_ahead=allowance)


def main(arguments: "dict[str, Any]") -> int:
    """Run one campaign, print what it counted, and return the exit code."""
    life = arguments.pop("life")
    try:
        print(json.dumps(PowerLoss(**arguments).run(life)))
    except BrokenPromiseError as error:
        print(json.dumps({"broken": str(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
