"""Time one SDK's call, bare and with a budget round it: `python adapter_calls.py NAME URL ROUNDS`.

It runs in the environment of that SDK, and prints the two times of a call in nanoseconds as JSON.
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from budget_cpython import budgeted

MANY = "calls, 400 messages"  # of openai alone
LIMITS = {"calls": "1_000_000_000 calls", "money": "$1_000_000 + 1_000_000_000 calls"}
_MODEL = "gpt-4o-mini"
_QUESTION = [{"role": "user", "content": "How do tomatoes grow?"}]
_MANY = [{"role": "user", "content": "How do tomatoes grow? " * 10}] * 400
_PER_ROUND = 10
_LOOP = asyncio.new_event_loop()  # one: some SDKs share their connections

Call = Callable[[], object]
Pair = tuple[Call, Call]


def main() -> None:
    """Print the least time of a call of each kind, by the limits of the budget."""
    name, url, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    logging.disable(logging.WARNING)
    os.environ.update(OPENAI_API_KEY="none", LITELLM_LOCAL_MODEL_COST_MAP="True")
    found = {}
    for kind, limits in LIMITS.items():
        bare, within = CALLS[name](url, limits)
        found[kind] = _least([bare, within], rounds)
    if name == "openai":
        found[MANY] = _least(list(_openai(url, LIMITS["calls"], _MANY)), max(1, rounds // 4))
    print(json.dumps(found))


def _least(calls: list[Call], rounds: int) -> list[float]:
    """Return the least nanoseconds of a call of each kind, which take turns."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            call()
            start = time.perf_counter_ns()
            for _ in range(_PER_ROUND):
                call()
            least[index] = min(least[index], (time.perf_counter_ns() - start) / _PER_ROUND)
    return least


def _openai(url: str, limits: str, asked: Any = _QUESTION) -> Pair:
    from openai import OpenAI

    bare = OpenAI(base_url=url + "/v1", api_key="none")
    return _chat(bare, asked), _chat(budgeted(bare, limits), asked)


def _chat(client: Any, asked: Any) -> Call:
    return lambda: client.chat.completions.create(model=_MODEL, messages=asked)


def _anthropic(url: str, limits: str) -> Pair:
    from anthropic import Anthropic  # type: ignore[import-not-found, unused-ignore]

    bare = Anthropic(base_url=url, api_key="none")

    def call(client: Any) -> Call:
        asked = {"model": "claude-haiku-4-5", "max_tokens": 100, "messages": _QUESTION}
        return lambda: client.messages.create(**asked)

    return call(bare), call(budgeted(bare, limits))


def _google_genai(url: str, limits: str) -> Pair:
    from google import genai  # type: ignore[import-not-found, attr-defined, unused-ignore]
    from google.genai.types import (  # type: ignore[import-not-found, unused-ignore]
        HttpOptions,
    )

    bare = genai.Client(api_key="none", http_options=HttpOptions(base_url=url))

    def call(client: Any) -> Call:
        return lambda: client.models.generate_content(model="gemini-2.5-flash", contents="Grow?")

    return call(bare), call(budgeted(bare, limits))


def _litellm(url: str, limits: str) -> Pair:
    import litellm  # type: ignore[import-not-found, unused-ignore]

    def call(client: Any) -> Call:
        where = {"api_base": url + "/v1", "api_key": "none"}
        return lambda: client.completion("openai/" + _MODEL, _QUESTION, **where)

    return call(litellm), call(budgeted(litellm, limits))


def _langchain(url: str, limits: str) -> Pair:
    from langchain_openai import (  # type: ignore[import-not-found, unused-ignore]
        ChatOpenAI,
    )

    bare = ChatOpenAI(model=_MODEL, base_url=url + "/v1", api_key="none")
    within = budgeted(bare, limits)
    return lambda: bare.invoke("Grow?"), lambda: within.invoke("Grow?")


def _openai_agents(url: str, limits: str) -> Pair:
    from agents import (  # type: ignore[import-not-found, unused-ignore]
        Agent,
        OpenAIProvider,
        Runner,
        set_tracing_disabled,
    )

    set_tracing_disabled(True)
    provider = OpenAIProvider(base_url=url + "/v1", api_key="none", use_responses=False)
    bare = Agent(name="cook", model=provider.get_model(_MODEL))

    def call(agent: Any) -> Call:
        return lambda: _LOOP.run_until_complete(Runner.run(agent, "Grow?"))

    return call(bare), call(budgeted(bare, limits))


def _pydantic_ai(url: str, limits: str) -> Pair:
    from pydantic_ai import Agent  # type: ignore[import-not-found, unused-ignore]
    from pydantic_ai.models.openai import (  # type: ignore[import-not-found, unused-ignore]
        OpenAIChatModel,
    )
    from pydantic_ai.providers.openai import (  # type: ignore[import-not-found, unused-ignore]
        OpenAIProvider,
    )

    provider = OpenAIProvider(base_url=url + "/v1", api_key="none")
    bare = OpenAIChatModel(_MODEL, provider=provider)

    def call(model: Any) -> Call:
        agent = Agent(model)
        return lambda: _LOOP.run_until_complete(agent.run("Grow?"))

    return call(bare), call(budgeted(bare, limits))


def _mcp(url: str, limits: str) -> Pair:
    from mcp import Client  # type: ignore[import-not-found, unused-ignore]
    from mcp.server.mcpserver import (  # type: ignore[import-not-found, unused-ignore]
        MCPServer,
    )

    server = MCPServer("library")

    @server.tool()  # type: ignore[untyped-decorator, unused-ignore]
    def search(words: str) -> str:
        """Find books."""
        return f"2 books on {words}"

    bare = _LOOP.run_until_complete(Client(server).__aenter__())

    def call(client: Any) -> Call:
        return lambda: _LOOP.run_until_complete(client.call_tool("search", {"words": "whales"}))

    limited = limits.replace("calls", "tool_calls")
    return call(bare), call(budgeted(bare, limited, tool_prices={"search": "0.0001"}))


def _smolagents(url: str, limits: str) -> Pair:
    from smolagents import (  # type: ignore[import-not-found, unused-ignore]
        ChatMessage,
        MessageRole,
        OpenAIServerModel,
    )

    bare = OpenAIServerModel(_MODEL, api_base=url + "/v1", api_key="none")
    asked = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "Grow?"}])]

    def call(model: Any) -> Call:
        return lambda: model.generate(asked)

    return call(bare), call(budgeted(bare, limits))


def _crewai(url: str, limits: str) -> Pair:
    from crewai import LLM  # type: ignore[import-not-found, unused-ignore]

    def model() -> Any:
        return LLM(model="openai/" + _MODEL, base_url=url + "/v1", api_key="none")

    bare, within = model(), budgeted(model(), limits)
    return lambda: bare.call("Grow?"), lambda: within.call("Grow?")


CALLS: dict[str, Callable[[str, str], Pair]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google-genai": _google_genai,
    "litellm": _litellm,
    "langchain": _langchain,
    "openai-agents": _openai_agents,
    "pydantic-ai": _pydantic_ai,
    "mcp": _mcp,
    "smolagents": _smolagents,
    "crewai": _crewai,
}

if __name__ == "__main__":
    main()
