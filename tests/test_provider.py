"""Answers as dataclasses, which exoclaw's types take over."""

import asyncio
import dataclasses

import pytest
from exoclaw.providers import LLMResponse, ToolCallRequest

from budget_cpython import (
    BudgetWrapper,
    ChatClient,
    ChatResponse,
    ToolCall,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from scripted_model import ScriptedEndpoint

HELLO = [{"role": "user", "content": "Hello."}]
TOOL = {"name": "list_files", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": TOOL}]


def as_exoclaws(answer: ChatResponse) -> LLMResponse:
    """Return an answer as exoclaw's durable executor reads it from its journal."""
    fields = dataclasses.asdict(answer)
    calls = [ToolCallRequest(**call) for call in fields.pop("tool_calls")]
    return LLMResponse(tool_calls=calls, **fields)


def test_a_models_answer_is_one() -> None:
    with ScriptedEndpoint() as endpoint:
        answer = asyncio.run(ChatClient(endpoint.base_url, "scripted").chat(HELLO, TOOLS))
    theirs = as_exoclaws(answer)
    assert (theirs.content, theirs.usage) == (answer.content, answer.usage)
    assert theirs.tool_calls == [ToolCallRequest("call_1_0", "list_files", {})]
    assert ChatResponse(**dataclasses.asdict(answer)).content == answer.content


def test_a_budgets_answer_is_one() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=0))
    answer = asyncio.run(BudgetWrapper(ChatClient("http://host/v1", "m"), tracker).chat(HELLO))
    assert answer.cut_off_by == "turn"
    assert as_exoclaws(answer).content == answer.content


def test_cost_and_service_tier_are_kept() -> None:
    answer = ChatResponse("Hi.", cost=0.25, service_tier="flex")
    theirs = as_exoclaws(answer)
    assert (theirs.cost, theirs.service_tier) == (0.25, "flex")


def test_answers_compare_and_show_themselves() -> None:
    answer = ChatResponse("Hi.", [ToolCall("c", "f", {"a": 1})])
    assert answer == ChatResponse("Hi.", [ToolCall("c", "f", {"a": 1})])
    assert answer != dataclasses.replace(answer, content="Ho.")
    assert repr(answer.tool_calls) == "[ToolCall(id='c', name='f', arguments={'a': 1})]"


@pytest.mark.parametrize("answer", [ChatResponse("a"), ToolCall("c", "f", {})])
def test_fields_are_those_of_exoclaws_types(answer: ChatResponse | ToolCall) -> None:
    theirs = LLMResponse if isinstance(answer, ChatResponse) else ToolCallRequest
    assert [field.name for field in dataclasses.fields(answer)] == [
        field.name for field in dataclasses.fields(theirs)
    ]
