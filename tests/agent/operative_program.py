"""Run an agent against an endpoint in one way after another and print what came of each.

    python -m tests.agent.operative_program BASE_URL

Each run names a model of its own, so that its requests can be told from the others'.
"""

import asyncio
import gc
import json
import os
import sys

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.operative import Operative
from budget_core.agent.tool import Tool
from budget_core.agent.wind_down import WindDown
from budget_core.chat.client import ChatClient
from budget_core.usage_estimate import estimate_tokens
from tests.late_clock import LateClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILES = {"notes.md": "# Garden\nWater twice.", "todo.txt": "Buy seeds.", "plan.txt": "Dig."}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
UNTOLD = WindDown(notice_at=(), tools_off_at=None)
RUNS: "tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]" = (
    ("ends", {"max_turns": 20}, {}),
    ("told", {"max_turns": 5}, {}),
    ("turns", {"max_turns": 3}, {"wind_down": UNTOLD}),
    (
        "tokens",
        {"max_tokens": 1_200, "last_call": 0.4},
        {"wind_down": UNTOLD, "count_tokens": estimate_tokens},
    ),
    ("streams", {"max_turns": 20}, {"stream": True}),
    ("stream-cut", {"max_turns": 20}, {"stream": True}),
    ("hang", {"timeout": 0.2, "last_call": None}, {}),
    ("error-429", {"max_turns": 20}, {}),
    ("busy", {"max_turns": 4}, {"wind_down": UNTOLD}),
    ("error-500", {"max_turns": 20}, {"fallback_model": "rescue"}),
)


def list_files() -> str:
    return "".join([f"{name}\t{len(FILES[name])}\n" for name in sorted(FILES)])


async def read_file(path: str) -> str:
    await asyncio.sleep(0)
    return FILES[path]


TOOLS = [
    Tool("list_files", "Lists the files.", list_files),
    Tool("read_file", "Reads a file.", read_file, PATH),
]


async def no_time(seconds: float) -> None:
    """Wait for nothing."""


class Client(ChatClient):
    """A client with whose first call the clock begins to go."""

    def __init__(self, base: str, model: str, late: LateClock) -> None:
        super().__init__(base, model, sleep=no_time)
        self.late = late

    async def chat(self, *arguments: "Any", **options: "Any") -> "Any":
        """Go, and call."""
        self.late.go()
        return await super().chat(*arguments, **options)


def descriptors() -> int:
    """Return how many files and sockets are open."""
    gc.collect()
    return len(os.listdir("/dev/fd"))


async def play(base: str, model: str, limits: "Any", more: "Any") -> None:
    """Play one run and print what came of it."""
    deltas: list[str] = []

    def hear(kind: str, **fields: "Any") -> None:
        if kind == "delta":
            deltas.append(fields["text"])

    before = descriptors()
    late = LateClock()
    agent = Operative(Client(base, model, late), TOOLS, on_event=hear, **more)
    envelope = Envelope.open(Budget(**limits), late.clock)
    result = await agent.run("What do the files say?", envelope)
    saw = {
        "text": result.text,
        "kind": result.reason and result.reason.kind,
        "figures": result.reason and [result.reason.used, result.reason.limit, result.reason.kept],
        "status": getattr(getattr(result.reason, "error", None), "status", None),
        "usage": result.usage,
        "turns": result.turns,
        "statuses": [entry["status"] for entry in result.tool_results],
        "heard": "".join(deltas),
        "left_open": descriptors() - before,
    }
    print(json.dumps({"name": model, "saw": saw}))


async def main() -> None:
    """Play them all."""
    base = sys.argv[1]
    await ChatClient(base, "warm-up").chat([{"role": "user", "content": "Hi."}])  # opens the loop's
    for model, limits, more in RUNS:
        await play(base, model, limits, more)


asyncio.run(main())
