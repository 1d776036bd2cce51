"""Draw LLM calls on one account of a ledger: hold before, record after, lose nothing between."""

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerError,
    LedgerUnavailableError,
)
from budget_core.ledger.limit import MOST, check_path
from budget_core.ledger.llm_hold import Reservation, Taking
from budget_core.ledger.records import Hold, check_ttl
from budget_core.ledger.untold import CHARGE, Entry, Untold
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.prices import Price

TTL = 300  # seconds: what a process that died has in flight counts as spent after that
TRIES = 8  # as often a call is cut to what is left: each limit of the path may be the tightest once
_MOST_LAYERS = 16  # of wrappers round a provider
ANSWER = 4096  # tokens of an answer whose length nobody said
OUT_OF_REACH = "[Budget unavailable] The budget's ledger cannot be asked now."


class UnpricedError(LedgerError):
    """A call's price is not known, and an account that it draws on limits money.

    `scope` is the account's path.
    """

    def __init__(self, scope: str, model: str) -> None:
        self.scope = scope
        super().__init__(f"no price is known for {model}, and {scope} has a limit on nano_usd")


def is_given(shared: "dict[str, Any]", *names: str) -> bool:
    """Tell whether somebody gave a ledger: `None` is none. Raises `TypeError` for other names."""
    for name in shared:
        if name not in names:
            raise TypeError(f"unexpected keyword argument {name!r}")
    return any(shared[name] is not None for name in shared)


def _is_along(path: str, other: str) -> bool:
    return (path + "/").startswith(other + "/") or other.startswith(path + "/")


class LedgerAccount:
    """One account of a ledger, as LLM calls draw on it.

    `ledger` may be one that blocks or one whose methods are awaited. A hold is for `ttl` seconds,
    and is extended while its call takes longer. `max_tokens` is the length of an answer where
    nobody says one.

    A call that was answered counts as what its provider reported; one whose outcome is not known as
    what was held for it, or as what it is known to have used if that is more. What the ledger could
    not be told is kept with it, and told before the next call below the same root; what it will
    never take is dropped. `error` is why.
    """

    def __init__(
        self, ledger: "Any", path: "Any", max_tokens: int = ANSWER, ttl: float = TTL
    ) -> None:
        for name in ("reserve", "commit", "release", "extend", "charge", "balance"):
            if not hasattr(ledger, name):
                refuse("ledger", "a Ledger", ledger)
        if not path:
            refuse("account", "the path of an account in the ledger", path)
        self.ledger = ledger
        self.path = check_path(path)
        self.max_tokens = check_count("max_tokens", max_tokens)
        check_ttl(ttl)
        self.ttl = ttl
        self.error: Exception | None = None
        if getattr(ledger, "untold", None) is None:
            ledger.untold = Untold(ledger)  # so that the next call of anybody settles it
        self.untold: Untold = ledger.untold

    async def reserve(
        self,
        model: str,
        prompt: int,
        limit: int | None = None,
        price: "Price | None" = None,
        clamp: bool = True,
        key: str | None = None,
    ) -> Reservation:
        """Hold what a call may use: its prompt, and up to `limit` tokens of an answer.

        With `clamp`, an answer that does not fit is cut to what is left, at least to one token.
        With the `key` of a call of a process that died, its hold is taken over; each further call
        of this process with that key has a hold of its own. Raises `BudgetExceededError`,
        `UnpricedError`, whatever the ledger raises, and `ValueError` for what is no count.
        """
        check_count("count_tokens(messages, tools)", prompt)
        limit = self.max_tokens if limit is None else check_count("max_tokens", limit)
        await self.flush()
        if self.untold.waits(self.path):
            raise self.error or LedgerUnavailableError("the ledger was not told what was used")
        if price is None:
            await self._refuse_unpriced(model)
        if key is None or not self.untold.claim(self.path, key):
            return await self._reserved(prompt, limit, price, clamp, None)
        try:
            return await self._reserved(prompt, limit, price, clamp, key)
        except BaseException:
            self.untold.disclaim(self.path, key)
            raise

    async def _reserved(
        self, prompt: int, limit: int, price: "Price | None", clamp: bool, key: str | None
    ) -> Reservation:
        for again in range(TRIES, -1, -1):
            try:
                asked = amounts(prompt, limit, price)
                held = await self._hold(asked, key)
                if held.amounts != asked:
                    limit = max(1, held.amounts["tokens"] - prompt)
                return Reservation(self, held, limit)
            except BudgetExceededError as error:
                limit = _fitting(error, prompt, limit, price) if clamp and again else 0
                if limit < 1:
                    raise
        raise RuntimeError("never here")

    async def _hold(self, asked: "dict[str, int]", key: str | None) -> Hold:
        if key is not None:
            try:
                known: Hold = await settle(self.ledger.reserve(self.path, asked, key, self.ttl))
            except KeyReusedError:  # the call that died was cut to another length
                known = await settle(self.ledger.hold(self.path, key))
            if known.state == Hold.HELD and "tokens" in known.amounts:
                return known
        held: Any = self.ledger.reserve(self.path, asked, None, self.ttl)
        if hasattr(held, "__await__") or hasattr(held, "send"):
            held = await Taking(self, held).result()
        taken: Hold = held
        return taken

    async def _refuse_unpriced(self, model: str) -> None:
        for row in await settle(self.ledger.balance(self.path)):
            if row.axis == "nano_usd" and row.limit is not None:
                raise UnpricedError(row.account, model)

    def unheld(self, prompt: int, limit: int | None, price: "Price | None" = None) -> Reservation:
        """Return the reservation of a call that is made whatever is left; it is charged later."""
        asked = amounts(prompt, self.max_tokens if limit is None else limit, price)
        return Reservation(self, Hold(self.path, "", asked, Hold.RELEASED), limit)

    async def tell(self, entry: Entry) -> None:
        """Commit, release or charge; what cannot be done now is kept, and nothing is raised."""
        if entry.what == CHARGE and self.untold.waits(self.path):
            self.untold.charge_later(self.path, entry.actual or {})
            return
        try:
            self.error = await self.untold.say(entry) or self.error
        except BaseException as error:
            self.untold.add(entry)
            if not isinstance(error, Exception):
                raise
            self.error = error

    async def flush(self) -> bool:
        """Tell the ledger what it was not told yet; return whether it knows everything."""
        self.error = await self.untold.flush(self.path) or self.error
        return not self.untold.entries

    def refuse_twice(self, inner: "Any", tracker: "Any" = None) -> None:
        """Raise `ValueError` for a provider or tracker that counts here, above or below as well."""
        for _ in range(_MOST_LAYERS):
            if inner is None and tracker is None:
                break
            counted: list[Any] = [getattr(inner, "ledger_account", None)]
            for one in counted + [getattr(tracker, "shared", None)]:
                if getattr(one, "ledger", None) is self.ledger and _is_along(self.path, one.path):
                    raise ValueError(
                        f"account {self.path!r} would count each call twice: {one.path!r} in the "
                        "same ledger counts it already"
                    )
            tracker = getattr(inner, "tracker", None)
            inner = getattr(inner, "inner", None)


def amounts(prompt: int, limit: int, price: "Price | None" = None) -> "dict[str, int]":
    """Return the most that a call of that prompt and answer can use, by axis."""
    found = {"tokens": min(MOST, prompt + limit), "calls": 1}
    if price is not None:
        found["nano_usd"] = min(MOST, _most_of(price, prompt, limit))
        if not found["nano_usd"]:
            del found["nano_usd"]  # a debt stops nothing that is free
    return found


def used_by(tokens: int, nano_usd: int | None) -> "dict[str, int]":
    """Return what a call used, by axis; money is left out where its price is not known."""
    found = {"tokens": min(MOST, tokens), "calls": 1}
    if nano_usd is not None:
        found["nano_usd"] = min(MOST, nano_usd)
    return found


def _most_of(price: "Price", prompt: int, limit: int) -> int:
    """Return what a call costs if its whole prompt is written to a cache, where that is dearer."""
    return max(price.cost(prompt, limit), price.cost(prompt, limit, 0, prompt))


def _fitting(error: BudgetExceededError, prompt: int, limit: int, price: "Price | None") -> int:
    """Return the longest answer, shorter than before, that what is left would allow."""
    room: int | None = 0
    if error.axis == "tokens":
        room = error.left - prompt
    elif error.axis == "nano_usd" and price is not None:
        dearer = _most_of(price, prompt, 0) - price.cost(prompt, 0)
        room = price.affordable(error.left - dearer, prompt)
    return min(limit - 1, room or 0)
