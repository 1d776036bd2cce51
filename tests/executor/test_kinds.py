"""What can be a tool, and what it says about itself."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from budget_core import Tool
from budget_cpython.context.deadline import Deadline
from budget_cpython.executor import BoundedToolExecutor, tool_options, with_timeout
from tests.executor import tools
from tests.executor.support import turn


def generate() -> Any:
    yield 1


async def generate_async() -> Any:
    yield 1


class Generates:
    def __call__(self) -> Any:
        yield 1


class GeneratesAsync:
    async def __call__(self) -> Any:
        yield 1


GENERATORS = [
    generate,
    generate_async,
    Generates(),
    GeneratesAsync(),
    functools.partial(generate),
    Generates().__call__,
]


@pytest.mark.parametrize("tool", GENERATORS)
def test_a_generator_function_is_no_tool(tool: Any) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    with pytest.raises(TypeError, match="generator"):
        executor.execute(tool, {}, budget, state)
    with pytest.raises(TypeError, match="generator"):
        asyncio.run(executor.execute_async(tool, {}, budget, state))
    with pytest.raises(TypeError, match="generator"):
        executor.execute(Tool("generate", "Generates.", tool), {}, budget, state)
    assert budget.snapshot()["tool_calls_used"] == executor.running == 0


@pytest.mark.parametrize("function", GENERATORS)
def test_a_generator_function_has_no_time_limit(function: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="generator"):
        with_timeout(function, 1)


async def read_async() -> None: ...


def test_an_async_tool_is_none_for_a_process() -> None:
    tool: Any = tool_options(process=True)(functools.partial(read_async))
    executor = BoundedToolExecutor()
    with pytest.raises(TypeError, match="read_async is async"):
        executor.execute(tool, {}, *turn())
    with pytest.raises(TypeError, match="read_async is async"):
        asyncio.run(executor.execute_async(tool, {}, *turn()))


@tool_options(cap_s=500, retryable=False)
def look(**given: Any) -> tuple[float, dict[str, Any]]:
    if "fail" in given:
        raise LookupError
    return Deadline.current().remaining_seconds(), given


def test_a_partial_of_a_tool_is_that_tool() -> None:
    twice = functools.partial(functools.partial(look, a=1), b=2)
    outcome = BoundedToolExecutor(caps={"look": 300}).execute(twice, {"c": 3}, *turn())
    left, given = outcome.value
    assert outcome.tool_name == "look"
    assert given == {"a": 1, "b": 2, "c": 3}
    assert left <= 300
    outcome = BoundedToolExecutor().execute(twice, {}, *turn())
    assert outcome.value[0] <= 500
    assert not BoundedToolExecutor().execute(twice, {"fail": 1}, *turn()).retryable


def test_a_partial_of_a_processs_tool_runs_in_one() -> None:
    outcome = BoundedToolExecutor().execute(functools.partial(tools.add, b=40), {"a": 2}, *turn())
    assert (outcome.status, outcome.value, outcome.tool_name) == ("completed", 42, "add")
    outcome = BoundedToolExecutor().execute(functools.partial(tools.who_am_i), {}, *turn())
    assert outcome.value[0] == outcome.value[1]


def test_the_options_of_a_tools_function_are_the_tools() -> None:
    outcome = BoundedToolExecutor().execute(Tool("finder", "Looks.", look), {}, *turn())
    assert outcome.value[0] <= 500
    assert outcome.tool_name == "finder"


def test_a_tools_own_options_come_before_its_functions() -> None:
    tool: Any = Tool("finder", "Looks.", look)
    tool_options(cap_s=200)(tool)
    assert BoundedToolExecutor().execute(tool, {}, *turn()).value[0] <= 200


def test_options_that_a_partial_has_itself_come_first() -> None:
    tool = tool_options(cap_s=200)(functools.partial(look))
    assert BoundedToolExecutor().execute(tool, {}, *turn()).value[0] <= 200


def test_a_partial_of_a_partial_has_its_options() -> None:
    inner = tool_options(cap_s=200)(functools.partial(look, a=1))
    for tool in (functools.partial(inner, b=2), Tool("finder", "Looks.", inner)):
        assert BoundedToolExecutor().execute(tool, {}, *turn()).value[0] <= 200


def test_any_callable_is_a_tool() -> None:
    class Reader:
        def read(self, path: str) -> str:
            return path

    executor = BoundedToolExecutor()
    assert executor.execute(Reader().read, {"path": "a"}, *turn())[:4:3] == ("completed", "a")
    assert executor.execute(dict, {"a": 1}, *turn()).value == {"a": 1}
    assert executor.execute(functools.partial(max, 3, 4), {}, *turn()).tool_name == "max"
