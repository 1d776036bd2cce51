"""The cached balance of an account of a ledger, and what a final call on it would need."""

from budget_core.config import NEVER, WHOLE
from budget_core.ledger.answer_limit import amounts, fitting
from budget_core.ledger.checks import AXES
from budget_core.provider import maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Axis, CallPrice
    from budget_core.ledger._types import HoldAccount

_AXES = AXES + ("tool_calls",)  # a tool's own limit, or a user's, says nothing of the others
_EVERY = 8  # calls, after which the balance is read again
_NEAR = 4  # calls with their final one: while less is left, it is read before each
_ANSWER = 1024  # tokens of a final answer, unless a shorter one is asked for
SHORTEST = 64  # tokens of an answer that is worth a call


class CachedBalance:
    """The balance of an account and those above it, as far as this process knows.

    The balance is read before the first call and every eighth, and before each once little is left,
    or would be if all processes went on as before; in between, what this process used is added.
    Where it cannot be read, what was read last stays.
    """

    def __init__(self, account: "HoldAccount") -> None:
        self._account = account
        self._rows: list[Any] = []  # of limits that have a cap
        self._paces: list[int] = []  # what all processes used of each row for a call of this one
        self._used: dict[str, int] = {}  # since the balance was read
        self._calls = _EVERY  # since the balance was read
        self._least: dict[str, int] = {}  # with less than that left, it is read before each call

    def is_due(self, ppm: int = NEVER) -> bool:
        """Tell whether the balance is to be read, or that share of a limit is used."""
        for row, pace in zip(self._rows, self._paces):
            used = row.spent + self._used.get(row.axis, 0)
            left = self._left(row) - pace * self._calls
            if used * WHOLE >= row.limit * ppm or left < self._least.get(row.axis, 0):
                return True
        return self._calls >= _EVERY

    async def look(self) -> bool:
        """Read the balance if that is due; return whether a window began anew."""
        if not self.is_due():
            return False
        account, calls, before, self._calls = self._account, self._calls, self._rows, 0
        try:
            found = await maybe_await(account.ledger.balance(account.path))
        except Exception:  # noqa: BLE001 - an account is drawn on without it too
            return False
        rows = [row for row in found if row.limit is not None and row.axis in _AXES]
        self._rows, self._used = rows, {}
        same = [row.begins_at for row in before] == [row.begins_at for row in rows]
        paces = [(row.spent - was.spent) // max(1, calls) for row, was in zip(rows, before)]
        self._paces = paces if same else [0] * len(rows)
        return bool(before) and not same

    def add(self, used: "dict[str, int]") -> None:
        """Add what a call of this process used."""
        self._calls += 1
        for axis in used:
            self._used[axis] = self._used.get(axis, 0) + used[axis]

    def axes(self, kept: "dict[str, int] | None" = None) -> "list[Axis]":
        """Return `(scope, unit, used, cap, kept)` of each limit, `kept` of its axis being held."""
        return [self._axis(row, kept or {}) for row in self._rows]

    def limit_of(
        self, model: str, prompt: int, limit: int | None, price: "CallPrice | None"
    ) -> int | None:
        """Return the limit of an answer: the one given, or the account's, or what it can afford.

        `None` where no limit on tokens or money is known.
        """
        account = self._account
        limit = account.max_tokens if limit is None else limit
        if limit is not None:
            return limit
        for row in self._rows:
            if amounts(prompt, None, price).get(row.axis, 0) is None:
                left = row.limit - row.spent - self._used.get(row.axis, 0)
                fits = fitting(row.axis, left, prompt, price)
                share = max(1, account.share(fits, model, prompt))
                limit = share if limit is None else min(limit, share)
        return limit

    def longest(
        self, prompt: int, limit: int | None, price: "CallPrice | None", final: "dict[str, int]"
    ) -> "tuple[int | None, Axis | None]":
        """Return `(limit, None)`: the longest answer that leaves room for a `final` call.

        It is `(0, axis)` if that axis has no room for an answer of `SHORTEST` tokens, or of the
        limit if that is less.
        """
        call = amounts(prompt, limit, price)
        self._least = {axis: _NEAR * ((call[axis] or 0) + final.get(axis, 0)) for axis in call}
        shortest = SHORTEST if limit is None else min(limit, SHORTEST)
        for row in self._rows:
            if call.get(row.axis) is None:
                continue
            left = self._left(row) - final.get(row.axis, 0)
            if left < call[row.axis]:
                limit = limit or 0
                limit = min(limit, fitting(row.axis, left, prompt, price))
            if limit is not None and limit < shortest:
                return 0, self._axis(row, {})
        return limit, None

    def _left(self, row: "Any") -> int:
        held = 0 if self._account.wait_ms else row.held  # what a call waits for, it may have
        return int(row.limit - row.spent - held - self._used.get(row.axis, 0))

    def _axis(self, row: "Any", kept: "dict[str, int]") -> "Axis":
        unit = row.axis
        if row.window != "run":
            from budget_core.ledger.window_words import per

            unit = per(unit, row.window)
        used = row.spent + self._used.get(row.axis, 0)
        return row.account, unit, used, row.limit, min(kept.get(row.axis, 0), max(0, row.limit - 1))


class FinalCall:
    """What a final call would need after the next one, by the prompts so far.

    Its prompt is taken to grow once more by the most that it grew between two calls.
    """

    def __init__(self) -> None:
        self._before: int | None = None
        self._growth = 0

    def needs(self, prompt: int, limit: int | None, price: "CallPrice | None") -> "dict[str, int]":
        """Return the amounts, by axis, of a final call after one with that prompt."""
        if self._before is not None:
            self._growth = max(self._growth, prompt - self._before)
        self._before = prompt
        answer = _ANSWER if limit is None else min(limit, _ANSWER)
        return amounts(prompt + self._growth, answer, price)
