"""Plain answers, usage and streams, through the SDK and over a socket."""

from typing import Any

import openai
import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.calls import count_tokens
from scripted_model.usage import CACHE_STEP

from .support import ASK, HELLO, TOOLS, step, steps, stream_lines


def test_a_plain_answer_speaks_of_the_question_and_stops(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="any-name", messages=HELLO)
    (choice,) = completion.choices
    assert completion.object == "chat.completion"
    assert completion.model == "any-name"
    assert choice.finish_reason == "stop"
    assert choice.message.role == "assistant"
    assert choice.message.tool_calls is None
    assert "How do tomatoes grow on a balcony?" in (choice.message.content or "")


def test_text_parts_are_read_like_a_string(client: openai.OpenAI) -> None:
    parts: Any = [{"type": "text", "text": "tomatoes "}, {"type": "text", "text": "on a balcony"}]
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}]
    )
    assert "tomatoes on a balcony" in (completion.choices[0].message.content or "")


def test_parts_without_text_are_ignored(client: openai.OpenAI) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts: Any = [image, {"type": "text", "text": "tomatoes"}]
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}]
    )
    assert '"tomatoes"' in (completion.choices[0].message.content or "")


@pytest.mark.parametrize(("chars", "tokens"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_tokens_are_rounded_up_and_at_least_one(chars: int, tokens: int) -> None:
    assert count_tokens(chars) == tokens


def test_usage_counts_four_characters_a_token(client: openai.OpenAI) -> None:
    short = client.chat.completions.create(model="m", messages=HELLO)
    longer: Any = [{"role": "user", "content": HELLO[0]["content"] + "x" * 40}]
    long = client.chat.completions.create(model="m", messages=longer)
    assert short.usage is not None
    assert long.usage is not None
    assert long.usage.prompt_tokens == short.usage.prompt_tokens + 10
    content = short.choices[0].message.content or ""
    assert short.usage.completion_tokens == -(-len(content) // 4)
    assert short.usage.total_tokens == short.usage.prompt_tokens + short.usage.completion_tokens


def test_every_completion_and_every_call_has_its_own_id(client: openai.OpenAI) -> None:
    made = [client.chat.completions.create(model="m", messages=ASK, tools=TOOLS) for _ in range(3)]
    calls = [completion.choices[0].message.tool_calls for completion in made]
    assert len({completion.id for completion in made}) == 3
    assert len({call.id for some in calls for call in some or ()}) == 3


def cached(client: openai.OpenAI, messages: Any, **more: Any) -> tuple[int, int]:
    usage = client.chat.completions.create(model="m", messages=messages, **more).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert not usage.prompt_tokens_details.cache_write_tokens
    return usage.prompt_tokens_details.cached_tokens or 0, usage.prompt_tokens


def test_the_prefix_of_the_previous_call_is_reported_as_cached(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    first, sent_before = cached(client, messages)
    messages += [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c" * 4000}]
    second, sent = cached(client, messages)
    assert first == 0
    assert second % CACHE_STEP == 0
    assert sent_before - CACHE_STEP < second <= sent_before < sent


def test_another_conversation_has_nothing_cached(client: openai.OpenAI) -> None:
    cached(client, [{"role": "user", "content": "a" * 4000}])
    assert cached(client, [{"role": "user", "content": "b" + "a" * 4000}])[0] == 0


def test_another_conversation_in_between_loses_no_cached_prefix(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    cached(client, messages)
    cached(client, HELLO)
    assert cached(client, messages)[0] > 0


def test_withdrawing_the_tools_loses_the_cached_prefix(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    cached(client, messages, tools=TOOLS)
    assert cached(client, messages, tools=TOOLS)[0] > 0
    assert cached(client, messages)[0] == 0


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_token_limit_cuts_the_answer(client: openai.OpenAI, name: str) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO)
    limits: Any = {name: 3}
    short = client.chat.completions.create(model="m", messages=HELLO, **limits)
    assert short.choices[0].finish_reason == "length"
    assert short.choices[0].message.content == (whole.choices[0].message.content or "")[:12]
    assert short.usage is not None
    assert short.usage.completion_tokens == 3


def test_a_limit_that_the_answer_just_meets_cuts_nothing(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO)
    assert whole.usage is not None
    exact = whole.usage.completion_tokens
    same = client.chat.completions.create(model="m", messages=HELLO, max_tokens=exact)
    less = client.chat.completions.create(model="m", messages=HELLO, max_tokens=exact - 1)
    assert same.choices[0] == whole.choices[0]
    assert less.choices[0].finish_reason == "length"


def test_a_token_limit_cuts_a_tool_call_in_its_arguments(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    choice: Any = client.chat.completions.create(
        model="m", messages=messages, tools=TOOLS, max_tokens=9
    ).choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "length"
    assert call.function.name == "read_file"
    assert call.function.arguments == '{"path": "'


def test_a_tool_call_whose_name_does_not_fit_is_left_out(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(
        model="m", messages=ASK, tools=TOOLS, max_tokens=1
    ).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is None


def test_a_service_tier_is_echoed_when_asked(client: openai.OpenAI) -> None:
    tiers: Any = (None, "flex", "auto")
    made = [
        client.chat.completions.create(model="m", messages=HELLO, service_tier=tier)
        for tier in tiers
    ]
    assert [completion.service_tier for completion in made] == [None, "flex", "default"]


@pytest.mark.parametrize("effort", ["minimal", "low", "max"])
def test_reasoning_is_counted_and_not_shown(client: openai.OpenAI, effort: Any) -> None:
    plain = client.chat.completions.create(model="m", messages=HELLO)
    made = client.chat.completions.create(model="m", messages=HELLO, reasoning_effort=effort)
    assert made.choices == plain.choices
    assert made.usage is not None
    assert plain.usage is not None
    details = made.usage.completion_tokens_details
    assert details is not None
    assert details.reasoning_tokens
    assert made.usage.completion_tokens - plain.usage.completion_tokens in (
        details.reasoning_tokens,
        details.reasoning_tokens - 1,
    )


# Streams


def test_a_stream_brings_the_role_then_the_plain_answer_in_pieces(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO).choices[0]
    chunks = list(client.chat.completions.create(model="m", messages=HELLO, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    pieces = [delta.content for delta in deltas if delta.content]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert len(pieces) > 2
    assert "".join(pieces) == whole.message.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


def test_a_streamed_tool_call_adds_up_to_the_plain_one(client: openai.OpenAI) -> None:
    messages = list(ASK)
    step(client, messages, tools=TOOLS)
    chunks = list(
        client.chat.completions.create(model="m", messages=messages, tools=TOOLS, stream=True)
    )
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    functions = [call.function for call in calls if call.function is not None]
    assert {call.index for call in calls} == {0}
    assert [bool(call.id) for call in calls] == [True] + [False] * (len(calls) - 1)
    assert functions[0].name == "read_file"
    assert functions[0].arguments == ""
    assert len(functions) > 2
    assert "".join(function.arguments or "" for function in functions) == '{"path": "notes.md"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_stream_brings_usage_only_when_asked(
    endpoint: ScriptedEndpoint, client: openai.OpenAI
) -> None:
    plain = client.chat.completions.create(model="m", messages=HELLO).usage
    without = stream_lines(endpoint)
    having = stream_lines(endpoint, stream_options={"include_usage": True})
    assert plain is not None
    assert not any("usage" in chunk for chunk in without)
    assert all(chunk["choices"] for chunk in without)
    assert [chunk["usage"] for chunk in having[:-1]] == [None] * len(without)
    assert having[-1]["choices"] == []
    assert having[-1]["usage"] == plain.model_dump(exclude_none=True)
