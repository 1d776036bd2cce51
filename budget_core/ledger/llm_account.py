"""One account of a ledger, as LLM calls draw on it: held before, recorded after, never lost."""

import asyncio

from budget_core.checks import check_count, check_limit
from budget_core.errors import refuse
from budget_core.ledger.answer_limit import ANSWER, ExpectedAnswers, amounts, fitting, share
from budget_core.ledger.bucket import FAR
from budget_core.ledger.cached_balance import CachedBalance
from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerError,
    LedgerUnavailableError,
)
from budget_core.ledger.hold import (
    TTL,
    Hold,
    by_ledger,
    check_ttl,
    check_wait,
    origin,
    process_of,
)
from budget_core.ledger.llm_hold import LlmHold
from budget_core.ledger.outbox import CHARGE, COMMIT, RELEASE, Entry, Outbox, check_account, new_key
from budget_core.monotonic import MONOTONIC
from budget_core.provider import maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import Any

    from budget_core._types import CallPrice
    from budget_core.settlement import Settlement

    # what a call asks for: model, prompt, most tokens of its answer, price, whether to cut it, key,
    # and the reserve of its run's final call
    Terms = tuple[str, int, int | None, CallPrice | None, bool, str | None, Any]

TRIES = 8  # how often a call is cut: each limit of the path may be the tightest once
_MOST_LAYERS = 16  # of wrappers round a provider
_MOST_KEYS = 1024
_LEARNED = "learned"


class UnpricedError(LedgerError):
    """A call's price is not known, and an account that it draws on limits money.

    `scope` is the account's path.
    """

    def __init__(self, scope: str, model: str) -> None:
        self.scope = scope
        super().__init__(f"no price is known for {model}, and {scope} has a limit on money")


class _InProcess:
    """What all calls of this process share of one ledger: its outbox, their keys, their answers."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.awaited = False  # as far as is known
        self.answers = ExpectedAnswers()
        self._keys: set[tuple[str, str]] = set()
        self._former: set[tuple[str, str]] = set()

    def claim(self, path: str, key: str) -> bool:
        """Note a key and return whether it is new: only a call of a process that died has its hold.

        At least the last 1,024 keys are known.
        """
        place = (path, key)
        if place in self._keys or place in self._former:
            return False
        if len(self._keys) >= _MOST_KEYS:
            self._former, self._keys = self._keys, set()
        self._keys.add(place)
        return True

    def disclaim(self, path: str, key: str) -> None:
        """Forget a key whose call was not made."""
        self._keys.discard((path, key))
        self._former.discard((path, key))


IN_PROCESS: "MutableMapping[Any, _InProcess]" = by_ledger()


class LedgerAccount:
    """One account of a ledger, as LLM calls draw on it.

    `ledger` blocks or is awaited. A hold is for `ttl` seconds, and is extended while its call takes
    longer.

    An answer has the limit that its caller gives, else `max_tokens`. Without either it has none
    where no account of the path limits tokens or money, and else its `share` of what is free.

    A call waits up to `wait` seconds for what others hold. Where the longest answer is not free,
    only what is `expect`ed is held, and the answer cut to that: so many tokens, or, if `"learned"`,
    as many as some 95 of 100 of that model's answers had. By default it is twice that for a call
    that does not wait, and the whole limit for one that does.

    An answered call counts as what its provider reported; one whose outcome is unknown as what was
    held for it, or as what it is known to have used if that is more. Failed settlements are kept in
    the `outbox`, which all accounts in this ledger share, and delivered before the next call below
    the same root. `error` is why the ledger last failed, `cached_balance` how much is used. Where
    it `waits_elsewhere`, the ledger's own `reserve` waits for what others hold.
    """

    def __init__(
        self,
        ledger: "Any",
        path: "Any",
        max_tokens: int | None = None,
        ttl: float | None = None,
        wait: float | None = None,
        expect: int | str | None = None,
    ) -> None:
        self.path = check_account(
            ledger, path, ("reserve", COMMIT, "renew", RELEASE, "extend", CHARGE)
        )
        self.ledger = ledger
        self.max_tokens = check_limit("max_tokens", max_tokens)
        self.ttl = TTL if ttl is None else ttl
        check_ttl(self.ttl)
        self.wait_ms = check_wait(wait)
        self.expect = expect
        if expect not in (None, _LEARNED) and (type(expect) is not int or expect < 1):
            refuse("expect", "a whole number of tokens, 1 or more, or 'learned'", expect)
        self.error: Exception | None = None
        self.in_flight: set[LlmHold] = set()
        self._shared = IN_PROCESS.setdefault(origin(ledger), _InProcess())
        self.outbox = self._shared.outbox
        self.process = process_of(ledger)
        self.waits_elsewhere: bool = getattr(ledger, "WAITS_ELSEWHERE", False)
        self.cached_balance = CachedBalance(self)

    async def reserve(
        self,
        model: str,
        prompt: int,
        limit: int | None = None,
        price: "CallPrice | None" = None,
        clamp: bool = True,
        key: str | None = None,
        waits: bool = True,
        final: "Any" = None,
    ) -> LlmHold:
        """Hold what a call may use: its prompt, and up to `limit` tokens of an answer.

        Without a limit the ledger is asked for an amount without a bound, which it refuses if an
        account of the path limits tokens or money. With `clamp`, an answer that does not fit is cut
        to the `share` of what is left, but not below one token.
        With the `key` of a call of a process that died, its hold is taken over; each further call
        of this process with that key has a hold of its own. `final` is the reserve of a run's final
        call, which is held in one with a call that does not wait.

        Raises `BudgetExceededError`, `UnpricedError`, whatever the ledger raises, and `ValueError`
        for malformed counts.
        """
        check_count("count_tokens(messages, tools)", prompt)
        limit = check_limit("max_tokens", self.max_tokens if limit is None else limit)
        if self.outbox.entries:
            await self.catch_up()
        if key is not None and not self._shared.claim(self.path, key):
            key = None
        terms = (model, prompt, limit, price, clamp, key, final)
        try:
            if not (self.wait_ms and waits):
                asking = self._clamped(terms)
            elif self.waits_elsewhere:
                asking = self._clamped(terms, _now() + self.wait_ms)
            else:
                asking = self._in_turn(terms)
            held: LlmHold = await self.process.as_one_call(self.path, clamp, asking)
            return held
        except BaseException:
            if key is not None:
                self._shared.disclaim(self.path, key)
            raise

    async def _in_turn(self, terms: "Terms") -> LlmHold:
        """Wait for what others hold; when the time is over take what is left, as without."""
        from budget_core.ledger.waiting import reserve_waiting  # most programs never wait

        async def ask(operation: str, *arguments: "Any") -> "Any":
            if operation != "reserve":
                return await self._ask(operation, *arguments)
            await self.flush()
            return await self._clamped(terms, FAR)

        _, prompt, limit, price, clamp, key, _ = terms
        least = amounts(prompt, 1 if clamp or limit is None else limit, price)
        try:
            taken: Any = await reserve_waiting(
                self.ledger, self.path, least, key, self.ttl, self.wait_ms / 1000, ask
            )
            held: LlmHold = taken
            return held
        except BudgetExceededError as error:
            if not clamp or not error.is_held or fitting(error.axis, error.left, prompt, price) < 1:
                raise
            try:
                return await self._clamped(terms)
            except BudgetExceededError:
                raise error

    async def _clamped(self, terms: "Terms", until: int = 0) -> LlmHold:
        """Hold what a call may use, cut to what is free, or while it may wait, to what is unspent.

        The ledger waits until that millisecond; at `FAR` the caller does.
        """
        model, prompt, limit, price, clamp, key, final = terms
        tries = TRIES if clamp else 0
        expected = self._expected(model, limit) if clamp else limit
        while True:
            wait_ms = 0
            if 0 < until < FAR and (limit is None or limit <= (expected or limit)):
                wait_ms = max(0, until - _now())
            try:
                return await self.take(model, prompt, limit, price, key, wait_ms, final)
            except BudgetExceededError as error:
                if limit is None and error.asked is not None:
                    raise
                if error.is_held and limit is not None and limit <= (expected or limit):
                    if until == FAR:
                        raise
                    until = 0
                left = error.limit - error.spent if until else error.left
                share = self.share(fitting(error.axis, left, prompt, price), model, prompt)
                first = limit is None  # tokens or money are limited: so is the answer
                if expected and error.held and (share < ANSWER or not first):
                    share = min(share, expected)
                limit = max(1, share) if limit is None else min(limit - 1, share)
                if not first:
                    if limit < 1 or not tries:
                        raise
                    tries -= 1

    def share(self, free: int, model: str = "", prompt: int = 0) -> int:
        """Return the limit of an answer that has none, where so many tokens are free."""
        longest = self.process.longest_answer(model, prompt)
        return share(free, len(self.in_flight), longest)

    async def take(
        self,
        model: str,
        prompt: int,
        limit: int | None,
        price: "CallPrice | None",
        key: str | None = None,
        wait_ms: int = 0,
        final: "Any" = None,
    ) -> LlmHold:
        """Hold what a call with an answer of up to `limit` tokens may use, or raise."""
        asked = amounts(prompt, limit, price)
        if price is None:
            asked["nano_usd"] = None  # a limit on money refuses it
        try:
            held = await (final or self).hold_amounts(asked, key, wait_ms)
        except BudgetExceededError as error:
            if price is None and error.axis == "nano_usd":
                raise UnpricedError(error.scope, model)
            raise
        kept = 0 if key is None else held.amounts.get("tokens", 0)
        if kept and (kept > prompt or limit is not None):  # it may have been taken over
            limit = max(1, kept - prompt)
        kind = LlmHold if final is None else final.KIND
        taken: LlmHold = kind(self, held, limit, model, price)
        if final is not None:
            final.join(taken, asked)
        taken.prompt = prompt
        self.in_flight.add(taken)
        return taken

    def _expected(self, model: str, limit: int | None) -> int | None:
        """Return how many tokens of an answer to hold where not all are free; `None`: all."""
        expect: Any = self.expect
        if expect == _LEARNED or (expect is None and not self.wait_ms):
            expect = self._shared.answers.get((self.path, model)) >> (8 if expect else 7)
        return min(limit or expect, expect) if expect else limit

    def learn(self, held: LlmHold, tokens: int) -> None:
        """Note a call's usage, for the answers that are expected of the next ones."""
        if self.expect in (None, _LEARNED):
            answer = tokens - held.prompt
            was_cut = held.limit is not None and answer >= held.limit
            self._shared.answers.learn((self.path, held.model), max(1, answer), was_cut)

    def others_wait(self) -> bool:
        """Tell whether calls of this process wait for this ledger: a new one waits behind them."""
        from budget_core.ledger.waiting import room_of

        return room_of(self.ledger).waiting > 0

    async def hold_amounts(
        self, asked: "Mapping[str, int | None]", key: str | None = None, wait_ms: int = 0
    ) -> Hold:
        """Hold amounts as they are; only a ledger that waits by itself waits for them."""
        terms = (self.ttl, wait_ms / 1000) if wait_ms else (self.ttl,)
        if key is not None:
            try:
                known: Hold = await self._ask("reserve", self.path, asked, key, *terms)
            except KeyReusedError:  # the call that died was cut to another length
                known = await self._ask("hold", self.path, key)
            if known.state == Hold.HELD and (asked["tokens"] is None or "tokens" in known.amounts):
                return known
        found: Hold | None = self._at_once("reserve", self.path, asked, None, *terms)
        if found is None:
            found = await self.outbox.reserve(self._ask, self.path, asked, new_key(), *terms)
        return found

    async def renew(
        self,
        hold: Hold,
        actual: "dict[str, int]",
        asked: "Mapping[str, int | None]",
        key: str | None = None,
    ) -> Hold:
        """Commit a hold, and hold amounts as they are; in one step.

        With a `key` that may be repeated; without one, a hold whose answer is lost is undone.
        """
        found: Any = self._at_once("renew", hold, actual, asked, key, self.ttl)
        if found is None and key is not None:
            found = await self._ask("renew", hold, actual, asked, key, self.ttl)
        elif found is None:
            found = await self.outbox.renew(self._ask, hold, actual, asked, new_key(), self.ttl)
        taken: Hold = found
        return taken

    def _at_once(self, operation: str, *arguments: "Any") -> "Any":
        """Return the answer of a ledger that blocks; `None` for one that is awaited."""
        if self._shared.awaited:
            return None
        answer = getattr(self.ledger, operation)(*arguments)
        if not hasattr(answer, "close"):
            return answer
        answer.close()  # a coroutine that has not begun: one that may be cancelled needs a key
        self._shared.awaited = True
        return None

    async def _ask(self, operation: str, *arguments: "Any") -> "Any":
        return await maybe_await(getattr(self.ledger, operation)(*arguments))

    def unheld(self, prompt: int, limit: int | None, price: "CallPrice | None" = None) -> LlmHold:
        """Return a stand-in for the hold of a call that is made whatever is left, then charged."""
        asked = amounts(prompt, ANSWER if limit is None else limit, price)
        return LlmHold(self, Hold(self.path, "", asked, Hold.RELEASED), limit, "", price)

    async def settle(self, hold: LlmHold, outcome: "Settlement") -> None:
        """Charge what a call used; where that is not known, at least its hold."""
        await hold.settle(outcome)

    def note_charge(self, held: LlmHold) -> None:
        """Add the charge of a call to the cached balance."""
        self.cached_balance.add(held.charged or {})

    async def deliver(self, entry: Entry) -> None:
        """Commit, release or charge now, or keep the entry; raises nothing but a cancellation."""
        if entry.operation == CHARGE and self.outbox.waits(self.path):
            self.outbox.charge(self.path, entry.actual or {})
            return
        try:
            self.error = await self.outbox.deliver(self._ask, entry) or self.error
        except BaseException:  # the caller is cancelled
            self.deliver_soon()
            raise

    def deliver_soon(self) -> None:
        """Deliver the outbox in a task of its own, if an event loop runs here."""
        flushing = self.flush()
        try:
            asyncio.create_task(flushing)  # noqa: RUF006 - what it leaves stays in the outbox
        except RuntimeError:
            flushing.close()

    async def catch_up(self) -> None:
        """Deliver what the ledger is owed, or raise why what a call here waits for was not."""
        if not await self.flush() and self.outbox.waits(self.path):
            raise self.error or LedgerUnavailableError("the ledger is owed what was used before")

    async def flush(self) -> bool:
        """Deliver what the ledger is owed; return whether it has everything."""
        self.error = await self.outbox.deliver_all(self._ask, self.path) or self.error
        return not self.outbox.entries

    def refuse_twice(self, inner: "Any", tracker: "Any" = None) -> None:
        """Raise `ValueError` for a provider or tracker that counts here, above or below as well."""
        for _ in range(_MOST_LAYERS):
            if inner is None and tracker is None:
                break
            for one in (inner, tracker):
                counted: Any = getattr(one, "ledger_account", None)
                same = origin(getattr(counted, "ledger", None)) is origin(self.ledger)
                if same and _is_along(self.path, counted.path):
                    raise ValueError(
                        f"account {self.path!r} would count each call twice: {counted.path!r} in "
                        "the same ledger counts it already"
                    )
            tracker = getattr(inner, "tracker", None)
            inner = getattr(inner, "inner", None)


def _now() -> int:
    return MONOTONIC.read() // MONOTONIC.per_ms


def _is_along(path: str, other: str) -> bool:
    return (path + "/").startswith(other + "/") or other.startswith(path + "/")
