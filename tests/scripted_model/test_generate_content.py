"""Google's generateContent, over a socket."""

from typing import Any

import pytest

from scripted_model import ScriptedEndpoint

from .support import FILES, LISTING, events, send

HELLO: Any = [{"role": "user", "parts": [{"text": "How do tomatoes grow?"}]}]
TOOLS: Any = [{"functionDeclarations": [{"name": "list_files"}, {"name": "read_file"}]}]
NOTICE = {"role": "user", "parts": [{"text": "[Budget notice] 80% is used. Wrap up."}]}


def path(method: str = "generateContent", model: str = "m", version: str = "v1beta") -> str:
    return f"/{version}/models/{model}:{method}"


def ask(endpoint: ScriptedEndpoint, model: str = "m", **more: Any) -> Any:
    response, body = send(endpoint, {"contents": HELLO, **more}, path=path(model=model))
    assert response.status == 200, body
    return body


def parts(body: Any) -> Any:
    return body["candidates"][0]["content"]["parts"]


def calls(body: Any) -> list[Any]:
    return [part["functionCall"] for part in parts(body) if "functionCall" in part]


def step(endpoint: ScriptedEndpoint, contents: Any, with_ids: bool) -> list[str]:
    """Make one model call, answer its tool calls, and return what it called."""
    body = ask(endpoint, contents=contents, tools=TOOLS)
    called, results = calls(body), []
    for call in called:
        file = call["args"].get("path")
        text = FILES.get(file, f"Error: no file {file}") if file else LISTING
        ids = {"id": call["id"]} if with_ids else {}
        result = {"name": call["name"], "response": {"result": text}, **ids}
        results.append({"functionResponse": result})
        if not with_ids:
            del call["id"]
    contents += [body["candidates"][0]["content"], {"role": "user", "parts": results}]
    return [call["args"].get("path", call["name"]) for call in called]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_contents_are_answered_with_their_usage(endpoint: ScriptedEndpoint, version: str) -> None:
    _, body = send(endpoint, {"contents": HELLO}, path=path(version=version))
    (candidate,) = body["candidates"]
    (part,) = candidate["content"]["parts"]
    assert part["text"] == 'You said: "How do tomatoes grow?".'
    assert (candidate["content"]["role"], candidate["finishReason"]) == ("model", "STOP")
    used = body["usageMetadata"]
    assert used["candidatesTokenCount"] == -(-len(part["text"]) // 4)
    assert used["totalTokenCount"] == used["promptTokenCount"] + used["candidatesTokenCount"]
    assert body["modelVersion"] == "m"


@pytest.mark.parametrize("with_ids", [True, False])
def test_the_model_calls_tools_until_a_notice(endpoint: ScriptedEndpoint, with_ids: bool) -> None:
    contents: Any = list(HELLO)
    asked = [step(endpoint, contents, with_ids) for _ in range(4)]
    assert asked == [["list_files"], ["notes.md"], ["gone.md"], ["todo.txt"]]
    (part,) = parts(ask(endpoint, contents=[*contents, NOTICE], tools=TOOLS))
    assert "- notes.md: Garden notes" in part["text"]
    assert "budget notice" in part["text"]


def test_the_mode_of_function_calling_counts(endpoint: ScriptedEndpoint) -> None:
    def called(mode: str, *allowed: str) -> list[str]:
        config = {"mode": mode, **({"allowedFunctionNames": allowed} if allowed else {})}
        more = {"toolConfig": {"functionCallingConfig": config}, "tools": TOOLS}
        return [call["name"] for call in calls(ask(endpoint, contents=[*HELLO, NOTICE], **more))]

    assert called("AUTO") == called("NONE") == called("ANY", "read_file") == []
    assert called("ANY") == ["list_files"]


def test_candidates_and_their_limit(endpoint: ScriptedEndpoint) -> None:
    config = {"candidateCount": 3, "maxOutputTokens": 5}
    body = ask(endpoint, "long", generationConfig=config)
    assert [one["finishReason"] for one in body["candidates"]] == ["MAX_TOKENS"] * 3
    assert [one["index"] for one in body["candidates"]] == [0, 1, 2]
    assert body["usageMetadata"]["candidatesTokenCount"] == 15


def test_field_names_may_have_underscores(endpoint: ScriptedEndpoint) -> None:
    config = {"max_output_tokens": 5, "thinking_config": {"include_thoughts": True}}
    body = ask(endpoint, "m", generation_config=config)
    assert parts(body)[0]["thought"]
    assert body["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_thoughts_are_counted_and_shown_when_asked(endpoint: ScriptedEndpoint) -> None:
    hidden = ask(endpoint, generationConfig={"thinkingConfig": {"thinkingBudget": 100}})
    shown = ask(endpoint, generationConfig={"thinkingConfig": {"includeThoughts": True}})
    none = ask(endpoint, generationConfig={"thinkingConfig": {"thinkingBudget": 0}})
    assert len(parts(hidden)) == len(parts(none)) == 1
    assert [part.get("thought") for part in parts(shown)] == [True, None]
    assert "thoughtsTokenCount" not in none["usageMetadata"]
    for used in (hidden["usageMetadata"], shown["usageMetadata"]):
        assert used["thoughtsTokenCount"] > 0
        counted = sum(used[f"{name}TokenCount"] for name in ("prompt", "candidates", "thoughts"))
        assert used["totalTokenCount"] == counted


def test_the_prefix_of_an_earlier_prompt_is_cached(endpoint: ScriptedEndpoint) -> None:
    contents = [{"role": "user", "parts": [{"text": "a" * 4000}]}]
    first = ask(endpoint, contents=contents)["usageMetadata"]
    second = ask(endpoint, contents=contents)["usageMetadata"]
    assert "cachedContentTokenCount" not in first
    assert 0 < second["cachedContentTokenCount"] <= second["promptTokenCount"]


def test_tokens_are_counted_as_they_would_be_used(endpoint: ScriptedEndpoint) -> None:
    request = {"contents": HELLO, "systemInstruction": {"parts": [{"text": "Be kind."}]}}
    used = ask(endpoint, **request)["usageMetadata"]["promptTokenCount"]
    for body in (request, {"generateContentRequest": request}):
        assert send(endpoint, body, path=path("countTokens"))[1]["totalTokens"] == used


def test_a_stream_brings_pieces_and_the_usage_so_far(endpoint: ScriptedEndpoint) -> None:
    whole = ask(endpoint, tools=TOOLS)
    body = {"contents": HELLO, "tools": TOOLS}
    seen = events(endpoint, path("streamGenerateContent") + "?alt=sse", body)
    assert len(seen) > 3
    text = "".join(part.get("text", "") for event in seen for part in parts(event))
    assert text == parts(whole)[0]["text"]
    assert [call["name"] for event in seen for call in calls(event)] == ["list_files"]
    reasons = [event["candidates"][0].get("finishReason") for event in seen]
    assert reasons == [None] * (len(seen) - 1) + ["STOP"]
    counts = [event["usageMetadata"]["candidatesTokenCount"] for event in seen]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == whole["usageMetadata"]["candidatesTokenCount"]


@pytest.mark.parametrize(
    ("model", "status", "name"),
    [
        ("error-400", 400, "INVALID_ARGUMENT"),
        ("error-401", 401, "UNAUTHENTICATED"),
        ("error-429", 429, "RESOURCE_EXHAUSTED"),
        ("error-500", 500, "INTERNAL"),
        ("error-777", 404, "NOT_FOUND"),
    ],
)
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
def test_an_error_has_googles_shape(
    endpoint: ScriptedEndpoint, model: str, status: int, name: str, method: str
) -> None:
    response, body = send(endpoint, {"contents": HELLO}, path=path(method, model))
    error = body["error"]
    assert (response.status, error["code"], error["status"]) == (status, status, name)
    assert model in error["message"]


def test_the_key_is_a_header_or_part_of_the_address() -> None:
    with ScriptedEndpoint(api_key="right") as endpoint:
        body = {"contents": HELLO}
        for address, headers, status in [
            (path(), {"x-goog-api-key": "right"}, 200),
            (f"{path()}?key=right", {}, 200),
            (path(), {"x-goog-api-key": "wrong"}, 401),
            (path(), {}, 401),
        ]:
            response, _ = send(endpoint, body, path=address, headers=headers)
            assert response.status == status


def test_the_models_have_googles_shape(endpoint: ScriptedEndpoint) -> None:
    _, listed = send(endpoint, b"", "GET", "/v1beta/models")
    _, same = send(endpoint, b"", "GET", "/v1/models", headers={"x-goog-api-key": "k"})
    assert listed == same
    assert listed["models"][0]["name"] == "models/scripted"


CALLED: Any = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
LOST = {"role": "user", "parts": [{"functionResponse": {"name": "g", "response": {}}}]}


def test_results_without_ids_answer_calls_of_one_name_in_turn(endpoint: ScriptedEndpoint) -> None:
    twice = {"role": "model", "parts": CALLED["parts"] * 2}
    result = {"functionResponse": {"name": "f", "response": {"result": "done"}}}
    done: Any = {"role": "user", "parts": [result, result]}
    assert ask(endpoint, contents=[*HELLO, twice, done])["candidates"]


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("contents", {"contents": []}),
        ("contents[0].parts", {"contents": [{"role": "user"}]}),
        ("contents[0].role", {"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}),
        ("contents", {"contents": [CALLED]}),
        ("contents[1].tool_call_id", {"contents": [CALLED, LOST]}),
        ("generationConfig.maxOutputTokens", {"generationConfig": {"maxOutputTokens": 0}}),
        ("generationConfig.candidateCount", {"generationConfig": {"candidateCount": 9}}),
    ],
)
def test_a_malformed_request_is_refused(endpoint: ScriptedEndpoint, place: str, more: Any) -> None:
    response, body = send(endpoint, {"contents": HELLO, **more}, path=path())
    assert response.status == 400
    assert f"'{place}'" in body["error"]["message"]
