"""Fifty agents of one company on one ledger, over days: something to look at as its operator.

    python examples/fifty_agents/fifty_agents.py fifty.db
    microbudget status --ledger sqlite:fifty.db
    microbudget report --ledger sqlite:fifty.db --since 3d --output report.html

The days are simulated, and end now. The same `--seed` makes the same calls. In the last two hours
one agent runs away, and the limit of its ten minutes slows it down.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from budget_cpython import BudgetExceededError, SqliteLedger, parse_limits
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage

STEP_S = 300
DAY_S = 86_400
NANO = 10**9
# A model's price, in billionths of a dollar for a token of the prompt and one of the answer.
MODELS = {"gpt-5-mini": (250, 2_000), "claude-sonnet-4-5": (3_000, 15_000), "o4": (1_100, 4_400)}
TOOLS = ("search", "read_file", "run_tests")
LIMITS = {
    "acme": "$110/day + $2500/month",
    "acme/research": "$20/day",
    "acme/support": "$18/day + 1500k tokens/hour",
    "acme/coding": "$13/day",
    "acme/reports": "400 calls/hour",
}
# A team's agents: how many, the limits of each, its models, and its calls an hour by day and night.
TEAMS = {
    "research": (15, "$1.50/day", ("claude-sonnet-4-5", "o4"), 2.2, 0.5),
    "support": (20, "$1.20/day", ("gpt-5-mini",), 5.0, 1.5),
    "coding": (10, "$5/day + $2/10min", ("claude-sonnet-4-5", "gpt-5-mini"), 3.0, 0.2),
    "reports": (5, "2000 calls/day", ("o4", "gpt-5-mini"), 6.0, 6.0),
}
RUNAWAY = "acme/coding/agent-07"


class Company:
    """Agents that call models as their clock goes on; `refused` calls were not made."""

    def __init__(self, path: Path, start: int, seed: int) -> None:
        self.now = start
        self.refused = 0
        self.calls = 0
        self._random = random.Random(seed)  # noqa: S311 - the same calls each time
        self.ledger = SqliteLedger(path, clock=lambda: self.now)
        for account, limits in LIMITS.items():
            self.ledger.set_limits(account, parse_limits(limits))
        self._agents = list(_agents())
        for path_, _, limits in self._agents:
            self.ledger.set_limits(path_, parse_limits(limits))

    def step(self, end: int) -> None:
        """Let all agents work for some minutes, up to `end`."""
        started, working = self.now, self._is_working_hour()
        usage: list[HourOfUsage] = []
        for path, team, _ in self._agents:
            _, _, models, by_day, by_night = TEAMS[team]
            often = by_day if working else by_night
            if path == RUNAWAY and end - started < 2 * HOUR_S:
                often = 1200  # the same question again and again
            for _ in range(self._number(often * STEP_S / HOUR_S)):
                usage += self._call(path, self._random.choice(models))
        self.ledger.add_usage(usage)
        self.now = min(end, started + STEP_S)

    def leave_open(self) -> None:
        """Leave a few calls in flight, as they are when an operator looks."""
        for path, _, _ in self._random.sample(self._agents, 6):
            try:
                self.ledger.reserve(path, {"tokens": 6_000, "calls": 1, "nano_usd": NANO // 20})
            except BudgetExceededError:
                self.refused += 1

    def _call(self, path: str, model: str) -> Iterator[HourOfUsage]:
        prompt = int(self._random.lognormvariate(9.2, 0.8))
        answer = int(self._random.lognormvariate(6, 0.9))
        into, out = MODELS[model]
        held = {"tokens": prompt + 4_096, "calls": 1, "nano_usd": prompt * into + 4_096 * out}
        used = {"tokens": prompt + answer, "calls": 1, "nano_usd": prompt * into + answer * out}
        try:
            hold = self.ledger.reserve(path, held)
        except BudgetExceededError:
            self.refused += 1
            return
        self.ledger.commit(hold, used)
        self.calls += 1
        hour = self.now - self.now % HOUR_S
        yield HourOfUsage(hour, path, model, "", used)
        if self._random.random() < 0.4:
            yield HourOfUsage(hour, path, "", self._random.choice(TOOLS), {"tool_calls": 1})

    def _is_working_hour(self) -> bool:
        return 7 * HOUR_S <= self.now % DAY_S < 18 * HOUR_S

    def _number(self, mean: float) -> int:
        """Return a number of calls, Poisson distributed."""
        number, left = 0, self._random.expovariate(1)
        while left < mean:
            number += 1
            left += self._random.expovariate(1)
        return number


def _agents() -> Iterator[tuple[str, str, str]]:
    """Yield each agent's account, team and limits."""
    for team, (number, limits, *_) in TEAMS.items():
        for one in range(1, number + 1):
            yield f"acme/{team}/agent-{one:02}", team, limits


def main(arguments: list[str] | None = None) -> int:
    """Simulate the days, and write the ledger."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ledger", type=Path, help="the ledger's file, which must not exist")
    parser.add_argument("--days", type=float, default=3, help="days to simulate, up to now (3)")
    parser.add_argument("--seed", type=int, default=7, help="what the calls depend on (7)")
    parser.add_argument("--until", type=int, default=None, help="the Unix second at the end (now)")
    options = parser.parse_args(arguments)
    if options.ledger.exists():
        parser.error(f"{options.ledger} exists: name a new file, or remove it")
    until = int(time.time()) if options.until is None else options.until
    start = until - int(options.days * DAY_S)
    company = Company(options.ledger, start, options.seed)
    with company.ledger:
        while company.now < until:
            company.step(until)
            if sys.stderr.isatty():
                done = 100 * (company.now - start) // (until - start)
                print(f"\r{done} %\r", end="", file=sys.stderr, flush=True)
        company.leave_open()
    print(f"{company.calls} calls, {company.refused} refused: {options.ledger}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
