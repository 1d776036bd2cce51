"""Responses, through the SDK and over a socket."""

import json
from typing import Any

import openai
import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.usage import CACHE_STEP

from .support import FILES, LISTING, events, send

PATH = "/v1/responses"


def tool(name: str) -> Any:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "name": name, "parameters": parameters, "strict": False}


TOOLS: Any = [tool("list_files"), tool("read_file")]
NOTICE: Any = {"role": "user", "content": "[Budget notice] 80% is used. Wrap up."}


def step(client: openai.OpenAI, items: Any, **more: Any) -> list[str]:
    """Make one model call, answer its tool calls, and return what it called."""
    response = client.responses.create(model="m", input=items, tools=TOOLS, **more)
    items.extend(item.model_dump(exclude_none=True) for item in response.output)
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        path = json.loads(call.arguments).get("path")
        output = FILES.get(path, f"Error: no file {path}") if path else LISTING
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    return [json.loads(call.arguments).get("path", call.name) for call in calls]


def test_a_text_is_answered_with_its_usage(client: openai.OpenAI) -> None:
    response = client.responses.create(model="any-name", input="Tomatoes?", instructions="Be kind.")
    assert (response.object, response.status, response.model) == (
        "response",
        "completed",
        "any-name",
    )
    assert response.instructions == "Be kind."
    assert response.output_text == 'You said: "Tomatoes?".'
    assert [item.type for item in response.output] == ["message"]
    used = response.usage
    assert used is not None
    assert used.output_tokens == -(-len(response.output_text) // 4)
    assert used.total_tokens == used.input_tokens + used.output_tokens
    assert used.input_tokens_details.cached_tokens == 0
    assert used.output_tokens_details.reasoning_tokens == 0


def test_the_model_calls_tools_until_a_notice(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": [{"type": "input_text", "text": "What?"}]}]
    asked = [step(client, items) for _ in range(4)]
    assert asked == [["list_files"], ["notes.md"], ["gone.md"], ["todo.txt"]]
    last = client.responses.create(model="m", input=[*items, NOTICE], tools=TOOLS)
    assert "- notes.md: Garden notes" in last.output_text
    assert "budget notice" in last.output_text


def test_the_choice_of_tools_counts(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": "What?"}]
    assert step(client, list(items), tool_choice="none") == []
    assert step(client, [*items, NOTICE], tool_choice="required") == ["list_files"]
    other = {"type": "function", "name": "read_file"}
    assert step(client, list(items), tool_choice=other) == []


def test_a_limit_makes_the_response_incomplete(client: openai.OpenAI) -> None:
    response = client.responses.create(model="long", input="Tomatoes?", max_output_tokens=16)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert len(response.output_text) == 64
    assert response.usage is not None
    assert response.usage.output_tokens == 16


def test_reasoning_is_counted_and_summarized_when_asked(client: openai.OpenAI) -> None:
    quiet = client.responses.create(model="m", input="Why?", reasoning={"effort": "low"})
    loud = client.responses.create(
        model="m", input="Why?", reasoning={"effort": "low", "summary": "auto"}
    )
    assert [[item.type for item in one.output] for one in (quiet, loud)] == [
        ["reasoning", "message"]
    ] * 2
    summaries = [item.summary for one in (quiet, loud) for item in one.output[:1]]  # type: ignore[union-attr]
    assert summaries[0] == []
    assert "Why?" in summaries[1][0].text
    for one in (quiet, loud):
        assert one.usage is not None
        reasoning = one.usage.output_tokens_details.reasoning_tokens
        assert 0 < reasoning < one.usage.output_tokens


def test_the_prefix_of_an_earlier_prompt_is_cached(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": "a" * 4000}]
    cached = []
    for _ in range(2):
        used = client.responses.create(model="m", input=items).usage
        assert used is not None
        cached.append(used.input_tokens_details.cached_tokens)
    assert cached[0] == 0
    assert cached[1] >= 4000 // 4 - CACHE_STEP


def test_a_service_tier_is_echoed_when_asked(client: openai.OpenAI) -> None:
    assert client.responses.create(model="m", input="Hi").service_tier is None
    flex = client.responses.create(model="m", input="Hi", service_tier="flex")
    auto = client.responses.create(model="m", input="Hi", service_tier="auto")
    assert (flex.service_tier, auto.service_tier) == ("flex", "default")


def test_a_stream_brings_each_item_in_pieces_between_its_events(endpoint: ScriptedEndpoint) -> None:
    body = {"model": "m", "input": "What do the files say?", "tools": TOOLS, "stream": True}
    seen = events(endpoint, PATH, body)
    short = [event["type"].removeprefix("response.") for event in seen]
    assert [name for index, name in enumerate(short) if name != short[index - 1]] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    text = "".join(event["delta"] for event in seen if event["type"].endswith("text.delta"))
    arguments = [event["delta"] for event in seen if event["type"].endswith("arguments.delta")]
    final = seen[-1]["response"]
    assert text == final["output"][0]["content"][0]["text"] == "Let me look around."
    assert "".join(arguments) == final["output"][1]["arguments"] == "{}"
    assert seen[0]["response"]["status"] == "in_progress"
    assert seen[0]["response"]["usage"] is None
    assert final["usage"]["output_tokens"] > 0


def test_the_sdk_reads_a_stream(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="Hi", reasoning={"summary": "auto"}) as stream:
        assert stream.get_final_response().output_text == 'You said: "Hi".'


def test_a_streamed_response_that_is_cut_is_incomplete(endpoint: ScriptedEndpoint) -> None:
    body = {"model": "long", "input": "Hi", "max_output_tokens": 20, "stream": True}
    last = events(endpoint, PATH, body)[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["usage"]["output_tokens"] == 20


@pytest.mark.parametrize(
    ("param", "more"),
    [
        ("model", {"model": ""}),
        ("input", {"input": None}),
        ("input", {"input": []}),
        ("input[0].content", {"input": [{"role": "user", "content": 5}]}),
        ("input[0].arguments", {"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}),
        (
            "input[0].tool_call_id",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
        ),
        ("max_output_tokens", {"max_output_tokens": 15}),
        ("stream", {"stream": "yes"}),
    ],
)
def test_a_malformed_request_is_refused(endpoint: ScriptedEndpoint, param: str, more: Any) -> None:
    response, body = send(endpoint, {"model": "m", "input": "Hi", **more}, path=PATH)
    assert (response.status, body["error"]["param"]) == (400, param)
