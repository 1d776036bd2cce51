"""What the checks of all engines share: whether it answers, and its clock."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.finding import Finding, fails, ok, warning
from budget_cpython.ledger.opening import open_ledger

TIMEOUT_S = 10.0
Check = tuple[str, Callable[[], Finding]]
_MOST_OFF_S = 5  # of a clock: windows begin and end that much late


def answers(
    url: str, options: dict[str, Any], version: Callable[[], str], fix: str
) -> Callable[[], Finding]:
    """Return the check that an engine answers as a ledger; it says the engine's `version`."""

    def check() -> Finding:
        try:
            with closing(open_ledger(url, **options)) as ledger:
                count = len(ledger.accounts())
            return ok(f"{version()} answers: {count:,} account{'s' * (count != 1)}")
        except (BudgetError, OSError, ValueError) as error:
            return fails(str(error), fix)

    return check


def compare_clocks(theirs: float, now: float, whose: str) -> Finding:
    """Return how far an engine's clock is from this machine's, both in Unix seconds."""
    off = round(abs(theirs - now))
    if off <= _MOST_OFF_S:
        return ok(f"{whose} clock and this machine's agree within {_MOST_OFF_S} s")
    ahead = "ahead of" if theirs > now else "behind"
    found = f"{whose} clock is {off:,} s {ahead} this machine's: windows begin by the engine's"
    return warning(found, "let both follow NTP, as with chrony or systemd-timesyncd")
