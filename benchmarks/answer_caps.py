"""Which limit of an answer serves callers best: a simulation on the real account of a ledger.

Callers make calls in turn, on one account, without a limit of their own. Times, lengths and prices
are made up and fixed by seeds, so each run gives the same figures. docs/money.md has the table.
"""

import heapq
import random
import re
from collections.abc import Callable, Coroutine, Iterable
from functools import cache, partial
from typing import Any, Final, NamedTuple

from benchmarks.figures import Figure
from benchmarks.mpy import ROOT
from budget_core.ledger.answer_limit import ANSWER, amounts
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.llm_hold import LlmHold
from budget_core.settlement import Settlement
from budget_cpython import BudgetExceededError, ChatResponse, Ledger, Limit, Price
from budget_cpython.vendors.answer_lengths import longest_answer

PAGE = ROOT / "docs/money.md"
MODEL = "gpt-5"  # whose answers may be long
PRICE = Price("1.25", "10")  # dollars per million tokens
SEEDS = 4
_TOKENS_A_SECOND = 60
_THINKS_S = 0.5  # of a model, before its first token
_PAUSE_S = 0.2  # of a caller, after an answer
_RETRY_S = 5.0  # of a caller, after a refusal
_LOOK_S = 1.0  # between looks of a call that waits
_TABLE: Final = re.compile(r"(<!-- caps -->\n).*(<!-- end of caps -->\n)", re.DOTALL)


class Scenario(NamedTuple):
    """Callers that make so many calls each.

    Their answers have about `answer` tokens, spread as the logarithms of a normal distribution.
    """

    name: str
    callers: int
    calls: int
    answer: int
    spread: float
    prompt: int


class Outcome(NamedTuple):
    """The outcome of all calls; `over` is what was spent beyond the limit."""

    served: float
    cut: float
    refused: float
    over: float


class Always4096(LedgerAccount):
    """The former rule: each answer may have 4,096 tokens, or what is left of them."""

    def share(self, free: int, model: str = "", prompt: int = 0) -> int:
        """Return the limit of an answer."""
        return min(free, ANSWER)


class PlainEighth(LedgerAccount):
    """An eighth of what is free for each call, whatever is in flight."""

    def share(self, free: int, model: str = "", prompt: int = 0) -> int:
        """Return the limit of an answer."""
        return min(free, max(ANSWER, min(longest_answer(model, prompt), free // 8)))


_NEVER = 1 << 40  # tokens that are expected: so nothing that is learned counts
RULES: dict[str, Callable[[Ledger], LedgerAccount]] = {
    "4,096": lambda ledger: Always4096(ledger, "org", expect=_NEVER),
    "an eighth": lambda ledger: PlainEighth(ledger, "org", expect=_NEVER),
    "the rule": lambda ledger: LedgerAccount(ledger, "org"),
    "the rule, `wait=60`": lambda ledger: LedgerAccount(ledger, "org", wait=60),
}
SCENARIOS = (
    Scenario("one agent, 60 long answers", 1, 60, 3000, 0.8, 2000),
    Scenario("4 agents, 15 long answers each", 4, 15, 3000, 0.8, 2000),
    Scenario("50 callers at once, one short answer each", 50, 1, 200, 0.6, 100),
    Scenario("50 callers at once, 8 short answers each", 50, 8, 200, 0.6, 100),
)
LIMITS = {
    "$0.01": Limit("usd", "0.01"),
    "$0.50": Limit("usd", "0.50"),
    "$5/day": Limit("usd", "5", "day"),
    "10,000 tokens": Limit("tokens", 10_000),
}


class Play:
    """One scenario under one rule and limit, from its first call to its last."""

    def __init__(
        self,
        scenario: Scenario,
        rule: Callable[[Ledger], LedgerAccount],
        limit: Limit,
        seed: int,
    ) -> None:
        self._scenario = scenario
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._ledger = Ledger(lambda: 1_770_000_000)
        self._ledger.set_limits("org", [limit])
        self._axis = limit.axis
        self._account = rule(self._ledger)
        self._cached_balance = self._account.cached_balance
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self.served = self.cut = self.refused = self.over = 0

    def run(self) -> Outcome:
        """Make all calls, and return their outcome."""
        for _ in range(self._scenario.callers):
            self._at(0, partial(self._begin, self._scenario.calls))
        while self._due:
            now, _, act = heapq.heappop(self._due)
            act(now)
        return Outcome(self.served, self.cut, self.refused, self.over)

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (when, self._number, act))

    def _begin(self, calls: int, now: float) -> None:
        """Make a caller's next call, of so many that are left."""
        length = self._random.lognormvariate(0, self._scenario.spread) * self._scenario.answer
        self._ask(calls - 1, max(1, int(length)), now + self._account.wait_ms / 1000, now)

    def _ask(self, calls: int, wanted: int, until: float, now: float) -> None:
        """Hold a call, or wait; `calls` follow it."""
        prompt = self._scenario.prompt
        _done(self._cached_balance.look())
        limit = self._cached_balance.limit_of(MODEL, prompt, None, PRICE)
        try:
            call = (MODEL, prompt, limit, PRICE, now >= until)  # what waits is not cut meanwhile
            hold = _done(self._account.reserve(*call, None, False))
        except BudgetExceededError as error:
            if now < until and error.held:
                self._at(now + _LOOK_S, partial(self._ask, calls, wanted, until))
            elif self._spent + amounts(prompt, wanted, PRICE)[self._axis] <= self._cap:
                self.refused += 1
                if calls:
                    self._at(now + _RETRY_S, partial(self._begin, calls))
            return
        said = min(wanted, hold.limit)
        self.served += 1
        self.cut += said < wanted
        over = partial(self._settle, calls, hold, said)
        self._at(now + _THINKS_S + said / _TOKENS_A_SECOND, over)

    def _settle(self, calls: int, hold: LlmHold, said: int, now: float) -> None:
        prompt = self._scenario.prompt
        usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
        _done(hold.settle(Settlement(ChatResponse("", usage=usage))))
        self.over = max(self.over, self._spent - self._cap)
        if calls:
            self._at(now + _PAUSE_S, partial(self._begin, calls))

    @property
    def _spent(self) -> int:
        return self._ledger.balance("org")[0].spent

    @property
    def _cap(self) -> int:
        return self._ledger.limits("org")[0].cap or 0


def _done(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("it waits")


@cache
def outcome(scenario: Scenario, rule: str, limit: str) -> Outcome:
    """Return the outcome of a scenario's calls: the mean of several seeds, but the most over."""
    plays = [Play(scenario, RULES[rule], LIMITS[limit], seed).run() for seed in range(SEEDS)]
    served, cut, refused, _ = (sum(values) / SEEDS for values in zip(*plays, strict=True))
    return Outcome(served, cut, refused, max(play.over for play in plays))


def with_table(page: str) -> str:
    """Return the text of docs/money.md with the table as it is now."""
    table = "\n".join(["", *_lines(), "", ""])
    return _TABLE.sub(lambda found: found[1] + table + found[2], page)


def _lines() -> list[str]:
    head = " | ".join(f"{rule}: made, cut, refused" for rule in RULES)
    return [f"| calls | limit | {head} |", "|---|---|" + "---|" * len(RULES), *rows(SCENARIOS)]


def rows(scenarios: Iterable[Scenario]) -> list[str]:
    """Return the table's rows for some scenarios."""
    found = []
    for scenario in scenarios:
        for limit in LIMITS:
            all_of = [outcome(scenario, rule, limit) for rule in RULES]
            cells = [f"{one.served:.0f}, {one.cut:.0f}, {one.refused:.0f}" for one in all_of]
            found.append(f"| {scenario.name} | {limit} | {' | '.join(cells)} |")
    return found


def measure(quick: bool = False) -> list[Figure]:
    """Return the totals of each rule; unless `quick`, write the table of docs/money.md."""
    if not quick:
        PAGE.write_text(with_table(PAGE.read_text()))
    figures = []
    for rule in RULES:
        all_of = [outcome(scenario, rule, limit) for scenario in SCENARIOS for limit in LIMITS]
        for name in ("cut", "refused"):
            total = sum(getattr(one, name) for one in all_of)
            figures.append(Figure(f"answers {name}, of all scenarios: {rule}", round(total)))
        over = max(one.over for one in all_of)
        figures.append(Figure(f"most beyond the limit: {rule}", over, "", 0))
    return figures
