"""LangChain's agents, and LangGraph's."""

from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from budget_cpython.adapters.frameworks.langchain import BudgetMiddleware
from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)
from tests.adapters.three_calls.judge import Judged


def a_model(job: Job) -> Any:
    return ChatOpenAI(model=MODEL, base_url=job.endpoint.base_url, api_key="k", stream_usage=True)


def answer(agent: Any, config: Any, streams: bool) -> object:
    """Run an agent, and return its last message."""
    asked = {"messages": [("user", PROMPT)]}
    if not streams:
        return agent.invoke(asked, config)["messages"][-1].content
    pieces = [piece for piece, _ in agent.stream(asked, config, stream_mode="messages")]
    return "".join(str(piece.content) for piece in pieces)


class Agents(Framework):
    """Agents of LangChain with middleware."""

    title, package = "LangChain `create_agent`", "langchain"
    limit, ended = "`ModelCallLimitMiddleware(run_limit=3)`", (3, "ends without an answer")
    ours = "`BudgetMiddleware()`"

    def run(self, job: Job) -> object:
        tools = [tool(job.look)]
        middleware: Any = ModelCallLimitMiddleware(run_limit=3) if job.limit else BudgetMiddleware()
        for level in range(job.scenario.levels):
            agent = create_agent(
                a_model(job), tools, system_prompt=job.scenario.system, middleware=[middleware]
            )
            tools = [self.as_tool(agent, f"ask_{level}")]
        return answer(agent, {"recursion_limit": UNLIMITED}, job.scenario.streams)

    def as_tool(self, agent: Any, name: str) -> Any:
        def ask(question: str) -> str:
            """Ask another one."""
            return str(answer(agent, {"recursion_limit": UNLIMITED}, streams=False))

        return tool(name)(ask)


class Graphs(Framework):
    """A graph of a model and its tools."""

    title, package = "LangGraph", "langgraph"
    limit, ended = "`recursion_limit=3`", (2, "raises `GraphRecursionError`")
    ours = "`budgeted(ChatOpenAI(…))`"

    def run(self, job: Job) -> object:
        tools = [tool(job.look)]
        for level in range(job.scenario.levels):
            graph = self.graph(job, tools)
            tools = [Agents.as_tool(Agents(), graph, f"ask_{level}")]
        return answer(graph, {"recursion_limit": job.limit or UNLIMITED}, job.scenario.streams)

    def graph(self, job: Job, tools: list[Any]) -> Any:
        model = job.budgeted(a_model(job)).bind_tools(tools)

        def think(state: Any) -> Any:
            return {
                "messages": [model.invoke([("system", job.scenario.system), *state["messages"]])]
            }

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
        graph.add_edge("tools", "think")
        return graph.compile()


class TestAgents(ThreeCalls):
    framework = Agents()


class TestGraphs(ThreeCalls):
    framework = Graphs()


class TestJudged(ThreeCalls):
    framework = Judged(
        "langgraph",
        "LangGraph `create_react_agent`, the judge's runner",
        "langgraph",
        "`recursion_limit=3`",
        (2, "ends without an answer"),
    )
