"""What the scripted model does with what it is sent."""

import json
from typing import Any

import openai
import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.model import MAX_CALLS

from .support import ASK, HELLO, LISTING, NOTICE, RESULT, TOOLS, send, step, steps, tool


def test_the_model_lists_the_files_then_reads_them_one_a_call(client: openai.OpenAI) -> None:
    messages = list(ASK)
    assert steps(client, messages, 4) == ["list_files", "notes.md", "gone.md", "todo.txt"]
    spoken = [m["content"] for m in messages if m["role"] == "assistant"]
    assert all(spoken)
    assert "notes.md" in spoken[1]


def test_without_a_notice_the_model_runs_away_until_its_cap(endpoint: ScriptedEndpoint) -> None:
    messages = list(ASK)
    asked = []
    for _ in range(MAX_CALLS):
        _, body = send(endpoint, {"model": "m", "messages": messages, "tools": TOOLS})
        message = body["choices"][0]["message"]
        (call,) = message["tool_calls"]
        asked.append(json.loads(call["function"]["arguments"]).get("path"))
        listed = LISTING if asked[-1] is None else "A first line."
        result = {"role": "tool", "tool_call_id": call["id"], "content": listed}
        messages += [message, result]
    assert asked == [None, *(["notes.md", "gone.md", "todo.txt"] * MAX_CALLS)[: MAX_CALLS - 1]]
    _, body = send(endpoint, {"model": "m", "messages": messages, "tools": TOOLS})
    assert body["choices"][0]["finish_reason"] == "stop"
    assert str(MAX_CALLS) in body["choices"][0]["message"]["content"]


def test_a_notice_makes_the_model_answer_with_what_it_read(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 6)
    choice = step(client, [*messages, NOTICE], tools=TOOLS)
    assert choice.finish_reason == "stop"
    assert choice.message.content.splitlines() == [
        "I read 2 of 3 files.",
        "- notes.md: Garden notes",
        "- todo.txt: Buy seeds",
        "Could not be read: gone.md.",
        "I wrapped up here because of the budget notice.",
    ]


def test_a_notice_counts_for_its_own_call_only(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    assert not step(client, [*messages, NOTICE], tools=TOOLS).message.tool_calls
    assert steps(client, messages, 1) == ["notes.md"]


def test_a_notice_before_tool_results_still_counts(client: openai.OpenAI) -> None:
    messages = [*ASK, NOTICE]
    call = {"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
    messages += [{"role": "assistant", "tool_calls": [call]}, {**RESULT, "content": LISTING}]
    choice = step(client, messages, tools=TOOLS)
    assert "budget notice" in choice.message.content


def test_a_notice_of_an_earlier_turn_is_over(client: openai.OpenAI) -> None:
    messages = [*ASK, NOTICE, {"role": "assistant", "content": "Done."}, *HELLO]
    assert steps(client, messages, 1) == ["list_files"]


def test_a_notice_at_the_start_is_answered_without_any_tool(client: openai.OpenAI) -> None:
    choice = step(client, [*ASK, NOTICE], tools=TOOLS)
    assert ASK[-1]["content"] in choice.message.content
    assert "budget notice" in choice.message.content


@pytest.mark.parametrize("more", [{}, {"tools": TOOLS, "tool_choice": "none"}])
def test_the_model_answers_when_tools_are_withdrawn(client: openai.OpenAI, more: Any) -> None:
    messages = list(ASK)
    steps(client, messages, 2)
    choice = step(client, messages, **more)
    assert choice.finish_reason == "stop"
    assert "- notes.md: Garden notes" in choice.message.content
    assert "budget notice" not in choice.message.content


def test_a_required_tool_call_is_made_despite_a_notice(client: openai.OpenAI) -> None:
    choice = step(client, [*ASK, NOTICE], tools=TOOLS, tool_choice="required")
    assert choice.finish_reason == "tool_calls"


def test_a_tool_that_was_not_chosen_is_not_called(client: openai.OpenAI) -> None:
    other: Any = {"type": "function", "function": {"name": "read_file"}}
    assert step(client, list(ASK), tools=TOOLS, tool_choice=other).finish_reason == "stop"


def test_unknown_tools_are_never_called(client: openai.OpenAI) -> None:
    choice = step(client, list(ASK), tools=[tool("erase_disk")])
    assert choice.finish_reason == "stop"
    assert ASK[-1]["content"] in choice.message.content


def test_a_listing_that_failed_is_asked_for_again(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    messages[-1]["content"] = "Error: no such folder"
    assert steps(client, messages, 1) == ["list_files"]


def test_blank_and_repeated_lines_of_a_listing_count_once(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    messages[-1]["content"] = "\nnotes.md\t44\n\n  \ntodo.txt\nnotes.md\n"
    assert steps(client, messages, 3) == ["notes.md", "todo.txt", "notes.md"]
    assert step(client, messages).message.content.startswith("I read 2 of 2 files.")


@pytest.mark.parametrize("arguments", ["", '{"path": ', '["notes.md"]', "null"])
def test_earlier_calls_with_unreadable_arguments_are_ignored(
    client: openai.OpenAI, arguments: str
) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    call = {"id": "c1", "type": "function"}
    function = {"name": "read_file", "arguments": arguments}
    messages.append({"role": "assistant", "tool_calls": [{**call, "function": function}]})
    messages.append({**RESULT, "content": "Error: no path given"})
    assert steps(client, messages, 1) == ["notes.md"]


def test_long_lines_are_not_quoted_in_full(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 2)
    messages[-1]["content"] = "# " + "word " * 1000
    answer = step(client, messages).message.content
    assert "word word" in answer
    assert len(answer) < 200
