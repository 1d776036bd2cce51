"""Put exoclaw's loop and our budgets together."""

from exoclaw.agent import AgentLoop
from exoclaw.agent.tools.registry import ToolRegistry
from exoclaw.bus import MessageBus
from exoclaw.executor import DirectExecutor

from budget_core import (
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    Enforcement,
    TurnBudgetConfig,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)
from tests_micro.support import unclear

from .parts import Memory, Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parts import Facts

FIGURES = "{pct}% of the {scope}: {used}/{cap} {unit}"
WARNING = "[warning] " + FIGURES
CUTOFF = "[cutoff] " + FIGURES
DEMOTED = "[demoted] " + FIGURES
STRIPPED = "[stripped] {disallow_clause}"


def agent(provider: "Any", policy: "Any" = None, **options: "Any") -> AgentLoop:
    """Return an exoclaw loop of its real parts; `tools` are `look` and `search` unless given."""
    options.setdefault("conversation", Memory())
    options.setdefault("tools", [Tool("look"), Tool("search")])
    return AgentLoop(
        MessageBus(),
        provider,
        iteration_policy=policy,
        executor=DirectExecutor(),
        registry=ToolRegistry(),
        **options,
    )


def turn_config(**changes: "Any") -> TurnBudgetConfig:
    """Return a turn's budget without warnings, with this folder's short texts."""
    texts = {
        "warning_template": WARNING,
        "cutoff_template": CUTOFF,
        "tool_strip_template": STRIPPED,
        "warning_thresholds": (),
    }
    return TurnBudgetConfig(**dict(texts, **changes))


def daily_config(**changes: "Any") -> DailyBudgetConfig:
    """Return a day's budget without warnings, with this folder's short texts."""
    texts = {"warning_template": WARNING, "cutoff_template": CUTOFF, "fallback_template": DEMOTED}
    return DailyBudgetConfig(**dict(texts, **changes))


def noon() -> float:
    """Return the one moment at which all scenarios play, so that no midnight falls into them."""
    return 1_800_014_400


class Budgets:
    """A turn's and a day's budget around one provider, as a user stacks them."""

    def __init__(self, provider: "Any", **turn: "Any") -> None:
        self.daily = DailyBudgetTracker(daily_config(enforcement=Enforcement.CUTOFF), noon)
        self.turn = TurnBudgetTracker(turn_config(**turn))
        self.wrapper = BudgetWrapper(BudgetWrapper(provider, self.daily), self.turn)
        self.policy = TurnBudgetPolicy(self.turn)

    def facts(self) -> "Facts":
        """Return what was counted."""
        return {
            "iterations": self.turn.iterations_seen,
            "turn_tokens": self.turn.total_tokens,
            "daily_tokens": self.daily.total_tokens,
            "unclear": unclear(self.turn),
        }


async def stream(budgets: Budgets, question: str, **options: "Any") -> "Facts":
    """Play a turn whose words are asked for as they come; return what came."""
    deltas: list[object] = []

    async def on_delta(
        piece: str, stream_end: bool = False, stream_final: bool | None = None
    ) -> None:
        deltas.append(["end", stream_final] if stream_end else piece)

    loop = agent(budgets.wrapper, budgets.policy, **options)
    reply = await loop.process_direct(question, on_delta=on_delta)
    return dict(budgets.facts(), reply=reply, deltas=deltas)
