"""The errors that a ledger raises at run time; configuration mistakes are `ValueError`s."""

from budget_core.errors import BudgetError
from budget_core.ledger.bucket import FAR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LedgerError(BudgetError):
    """A ledger refused an operation, or could not do it."""


class BudgetExceededError(LedgerError):
    """A reservation was refused and nothing was held: `asked` is more than is `left`.

    `scope` is the path of the account with the limit; `axis`, `window` and `limit` say which limit,
    `spent` and `held` what stands against it. `asked` is `None` for an amount without a bound.
    `resets_at` is the Unix second at which its window, or the current bucket of a rolling one,
    ends; `None` if it never does. `when` says in words until when it is spent; of a rolling window,
    which gives back bucket by bucket, until when at the latest. `now` is when it was refused, 0 if
    the date is not known; `waited_ms` is how long the call waited for what others held.
    """

    def __init__(
        self,
        scope: str,
        axis: str,
        window: str,
        asked: int | None,
        limit: int,
        spent: int,
        held: int,
        resets_at: int | None,
        now: int = 0,
        waited_ms: int = 0,
    ) -> None:
        self.scope = scope
        self.axis = axis
        self.window = window
        self.asked = asked
        self.limit = limit
        self.spent = spent
        self.held = held
        self.left = left = max(0, limit - spent - held)
        self.resets_at = resets_at
        self.now = now
        self.waited_ms = waited_ms
        waited = f"; waited {waited_ms / 1000:.1f} s" if waited_ms else ""
        self.when = when = ""
        from budget_core.ledger.window_words import per, rolling_seconds  # for the first refusal
        from budget_core.notices import show_on

        if resets_at is not None:
            from budget_core.until import until

            span = rolling_seconds(window)
            latest = " at the latest" if span else ""
            self.when = when = f", until {until(resets_at + span, now)}{latest}"
        show, unit = show_on(per(axis, window))
        super().__init__(
            f"{scope} has {show(left)} of {show(limit)}{unit} left, not "
            f"{'an amount without a bound' if asked is None else show(asked)}{when}: "
            f"{show(spent)} spent, {show(held)} held{waited}"
        )

    def but(
        self, asked: int | None, spent: int, held: int, waited_ms: int = 0
    ) -> "BudgetExceededError":
        """Return the error of a call to which the same limit refuses other amounts."""
        place = (self.scope, self.axis, self.window)
        times = (self.resets_at, self.now, waited_ms)
        return BudgetExceededError(*place, asked, self.limit, spent, held, *times)

    @property
    def is_held(self) -> bool:
        """Whether it is held, not spent: others may give back what is missing."""
        return _is_free(self.asked, self.limit, self.spent)


class UnknownAccountError(LedgerError):
    """Neither the path nor one above it has limits."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no account {path!r}, nor one above it: give one of them limits first")


class UnknownHoldError(LedgerError):
    """The hold is unknown: it was never taken, or settled too long ago."""

    def __init__(self, path: str, id: str) -> None:
        self.path = path
        self.id = id
        super().__init__(f"no hold {id!r} on {path!r} is known; `charge` records what it used")


class HoldSettledError(LedgerError):
    """A settled hold cannot be extended; `state` is what became of it."""

    def __init__(self, id: str, state: str) -> None:
        self.id = id
        self.state = state
        super().__init__(f"hold {id!r} is {state} by now, and cannot be extended")


class KeyReusedError(LedgerError):
    """A key was given again for another operation than the first time."""

    def __init__(self, path: str, key: str) -> None:
        self.path = path
        self.key = key
        super().__init__(
            f"key {key!r} stands for another operation below the same root as {path!r}"
        )


class LedgerFullError(LedgerError):
    """Another account or hold does not fit, or the disk is full; nothing was changed."""


class LedgerUnavailableError(LedgerError):
    """The engine of a ledger could not be reached, or did not answer; `cause` is the error beneath.

    `applied` is `False` if nothing can have changed, `None` if that is unknown: the same operation
    with the same key, or on the same hold, is safe to repeat.
    """

    def __init__(
        self,
        message: str,
        cause: "BaseException | None" = None,
        applied: bool | None = False,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.applied = applied


def refusal(found: "list[Any]", now: int) -> BudgetExceededError:
    """Return the error for one of several limits with too little left.

    Each is `(end, (account, axis, window), asked, cap, spent, held)`. One that is spent comes
    before one that is only held, then the one that resets last, and of equals the nearest: a caller
    that waits for it waits long enough. Times are Unix milliseconds.
    """
    end, (account, axis, window), asked, cap, spent, held = min(found, key=_order)
    times = (None if end >= FAR else end // 1000, now // 1000)
    return BudgetExceededError(account, axis, window, asked, cap, spent, held, *times)


def _order(refused: "Any") -> "Any":
    end, place, asked, cap, spent, _ = refused
    return _is_free(asked, cap, spent), -end, -len(place[0]), place


def _is_free(asked: int | None, limit: int, spent: int) -> bool:
    return asked is not None and spent + asked <= limit
