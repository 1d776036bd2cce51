"""Have a board draw on an account that a fleet shares, at a service, and report its day there."""

from budget_core.errors import BudgetError
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.lease import LeasedLedger
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.daily_tracker import DailyBudgetTracker

_TOKENS = 8_000  # leased at a time where a turn has no limit
_CALLS = 8


class FleetBudget:
    """The account of a board below `settings.LEDGER_ACCOUNT` at the service `settings.LEDGER`.

    `ledger` leases what a turn may use, and `end_turn` gives back the rest: nothing is leased while
    the board waits for a question. `account` ends with `settings.DEVICE`, or the chip's own number.
    With each request the board reports what its day has used. Raises `ValueError` if one of them is
    malformed, or the chip has no number.
    """

    def __init__(
        self, settings: "Any", secret: "Any", daily: "DailyBudgetTracker", tls: "Any" = None
    ) -> None:
        import budget_core.ledger.run_account  # noqa: F401 - now: in a run the C stack is deeper

        key = getattr(secret, "LEDGER_KEY", None)
        self.account = settings.LEDGER_ACCOUNT + "/" + (settings.DEVICE or chip_number())
        self._service = HttpLedger(settings.LEDGER, key, settings.CALL_TIMEOUT_S, tls=tls)
        tokens, calls = settings.MAX_TOKENS or _TOKENS, settings.MAX_TURNS or _CALLS
        self.ledger: Any = LeasedLedger(self._service, {"tokens": tokens, "calls": calls})
        self._daily = daily
        self._report()

    async def line(self) -> str:
        """Return what the account has left, or why the service does not say."""
        try:
            rows = await self.ledger.balance(self.account)
        except (BudgetError, ValueError) as error:  # a ValueError: another release's service
            return f"{self.account}: {error}"
        from budget_core.ledger.window_words import per

        left = [f"{row.left} {per(row.axis, row.window)}" for row in rows if row.left is not None]
        return f"{self.account}: " + (", ".join(left) + " left" if left else "no limit")

    async def end_turn(self) -> None:
        """Give back what is leased and report the day, or have the next turn do it."""
        self._report()
        try:
            await self.ledger.close()
        except BudgetError:
            pass  # logged; it is still owed

    def _report(self) -> None:
        daily = self._daily
        self._service.report(daily.total_tokens, daily.token_cap, daily.resets_at if WALL() else 0)


def chip_number() -> str:
    """Return the number that the maker gave to the chip, in hexadecimal."""
    try:
        unique_id = __import__("machine").unique_id
    except (ImportError, AttributeError):
        raise ValueError("DEVICE of the settings must name this board: its chip has no number")
    from binascii import hexlify

    return hexlify(unique_id()).decode()
