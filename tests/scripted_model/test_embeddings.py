"""Embeddings, through the SDK."""

from typing import Any

import openai
import pytest

from scripted_model import ScriptedEndpoint

from .support import send


def test_each_text_gets_a_vector_of_its_own(client: openai.OpenAI) -> None:
    made = client.embeddings.create(model="m", input=["tomato", "seed", "tomato"], dimensions=5)
    first, second, third = (one.embedding for one in made.data)
    assert [one.index for one in made.data] == [0, 1, 2]
    assert len(first) == 5
    assert first == third != second
    assert made.model == "m"
    assert made.usage.prompt_tokens == made.usage.total_tokens == -(-len("tomatoseedtomato") // 4)


def test_floats_and_base64_hold_the_same_numbers(client: openai.OpenAI) -> None:
    packed = client.embeddings.create(model="m", input="tomato")
    plain = client.embeddings.create(model="m", input="tomato", encoding_format="float")
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding)


@pytest.mark.parametrize(("given", "tokens"), [([1, 2, 3], 3), ([[1], [2, 123456]], 3)])
def test_tokens_are_counted_one_by_one(client: openai.OpenAI, given: Any, tokens: int) -> None:
    assert client.embeddings.create(model="m", input=given).usage.prompt_tokens == tokens


@pytest.mark.parametrize(
    ("param", "more"),
    [
        ("input", {}),
        ("input", {"input": ""}),
        ("input", {"input": []}),
        ("input", {"input": [True]}),
        ("dimensions", {"input": "x", "dimensions": 0}),
        ("encoding_format", {"input": "x", "encoding_format": "hex"}),
    ],
)
def test_a_malformed_request_is_refused(endpoint: ScriptedEndpoint, param: str, more: Any) -> None:
    response, body = send(endpoint, {"model": "m", **more}, path="/v1/embeddings")
    assert (response.status, body["error"]["param"]) == (400, param)


def test_a_model_that_fails_fails_here_too(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError):
        client.embeddings.create(model="error-429", input="x")
