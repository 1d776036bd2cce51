"""Say what a run used and what is left: for people, and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from budget_core.ledger.hold import Balance
from budget_core.money import dollars
from budget_cpython.columns import columns
from budget_cpython.ops.words import duration
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel
from budget_cpython.run.command import Ending

ENDED = 75  # EX_TEMPFAIL of sysexits.h
_HEADS = ("model", "calls", "input", "cached", "output", "cost")


@dataclass
class Report:
    """The result of a run of a command.

    `refused` is how many calls a budget refused, `reason` why it refused the last, `seconds` how
    long the run took, `limits` how each limit stands.
    """

    command: Sequence[str]
    ending: Ending
    refused: int
    reason: str
    seconds: float
    usage: UsageByModel
    limits: Sequence[Balance]

    @property
    def ended_by(self) -> str:
        """The cause of the run's end: the `deadline`, the `budget` or the `command` itself.

        The budget did if it refused calls and the command then failed, by an exit code.
        """
        if self.ending.late:
            return "deadline"
        failed = self.ending.code != 0 and self.ending.signal is None
        return "budget" if self.refused and failed else "command"

    @property
    def exit_code(self) -> int:
        """The exit code of the run: 75 if the budget or the deadline ended it."""
        return self.ending.code if self.ended_by == "command" else ENDED

    def lines(self) -> list[str]:
        """Return it for people: a line of all calls, a table by model, and what ended the run."""
        total = self.usage.total()
        tokens = total.input + total.output
        found = [
            f"microbudget: {total.calls:,} call{'s' * (total.calls != 1)}, {tokens:,} tokens, "
            f"{_cost(total)}, in {duration(self.seconds)}{_estimated(total)}",
            *_table(self.usage.rows()),
        ]
        if not total.calls and not self.refused:
            found.append("microbudget: no call came to the proxy; see microbudget run --help")
        if self.refused:
            calls = "1 call was" if self.refused == 1 else f"{self.refused:,} calls were"
            found.append(f"microbudget: {calls} refused: {self.reason}")
        own = f"the command's own exit code was {self.ending.code}"
        if self.ending.late:
            found.append(f"microbudget: the deadline ended the command; {own}")
        elif self.ended_by == "budget":
            found.append(f"microbudget: the budget ended the command; {own}")
        if self.ending.left:
            pids = ", ".join(map(str, self.ending.left))
            found.append(f"microbudget: processes that could not be ended: {pids}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON; money is in whole nano-dollars, and as text in dollars."""
        return {
            "command": list(self.command),
            "exit_code": self.exit_code,
            "command_exit_code": self.ending.code,
            "signal": self.ending.signal,
            "ended_by": self.ended_by,
            "refused_calls": self.refused,
            "last_refusal": self.reason or None,
            "seconds": round(self.seconds, 3),
            "total": _fields(self.usage.total()),
            "models": {model: _fields(row) for model, row in self.usage.rows().items()},
            "limits": list(map(_limit, self.limits)),
        }


def _table(rows: dict[str, ModelUsage]) -> list[str]:
    if not rows:
        return []
    table = [_HEADS, *((model, *_cells(row)) for model, row in rows.items())]
    return [f"  {line}" for line in columns(table, range(1, len(_HEADS)))]


def _cells(row: ModelUsage) -> tuple[str, ...]:
    counts = (row.calls, row.input, row.cached, row.output)
    return (*(f"{count:,}" for count in counts), _cost(row))


def _cost(row: ModelUsage) -> str:
    """Return the cost of calls as far as it is known."""
    if row.unpriced and not row.nano_usd:
        return "price unknown"
    return dollars(row.nano_usd) + (" or more" if row.unpriced else "")


def _estimated(row: ModelUsage) -> str:
    """Return how many calls are charged an estimate, where some are."""
    calls = f"{row.estimated:,} call{'s' * (row.estimated != 1)}"
    return f" ({calls} estimated)" if row.estimated else ""


def _fields(row: ModelUsage) -> dict[str, Any]:
    return {**vars(row), "usd": dollars(row.nano_usd).removeprefix("$")}


def _limit(row: Balance) -> dict[str, Any]:
    names = ("account", "axis", "window", "limit", "spent", "held", "left", "resets_at")
    return {name: getattr(row, name) for name in names}
