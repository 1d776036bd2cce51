"""What a call is held and charged at: by its vendor, its names, and who answered."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import httpx2 as httpx
import pytest
from genai_prices.data_snapshot import DataSnapshot
from openai import APIStatusError, OpenAI

from budget_core.prices import TablePrice, price_of
from budget_core.usage import read_usage
from budget_cpython import Ledger, Limit, ListedPrices, Price, budgeted, parse_limits
from budget_cpython.prices.listed_prices import ListedPrice
from budget_cpython.prices.price_table import PriceTable

# Models that vendors offer, embeddings included, as their own pages name them.
CURRENT = {
    "openai": (
        "gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro gpt-5-codex gpt-5.1 gpt-5.2 gpt-4.1 gpt-4.1-mini "
        "gpt-4.1-nano gpt-4o gpt-4o-2024-08-06 gpt-4o-mini o1 o1-pro o3 o3-mini o3-pro o4-mini "
        "codex-mini-latest chatgpt-4o-latest gpt-3.5-turbo text-embedding-3-small "
        "text-embedding-3-large text-embedding-ada-002"
    ),
    "azure": "gpt-4o gpt-4.1 o3-mini text-embedding-3-small text-embedding-3-large",
    "anthropic": (
        "claude-opus-4-1 claude-opus-4-5 claude-sonnet-4-0 claude-sonnet-4-5 claude-haiku-4-5 "
        "claude-sonnet-4-5-20250929 claude-3-7-sonnet-latest claude-3-5-haiku-latest"
    ),
    "google": (
        "gemini-2.5-pro gemini-2.5-flash gemini-2.5-flash-lite gemini-2.0-flash "
        "gemini-embedding-001"
    ),
    "mistral": (
        "mistral-large-latest mistral-medium-latest mistral-small-latest codestral-latest "
        "mistral-embed codestral-embed"
    ),
    "x-ai": "grok-4 grok-3 grok-3-mini grok-code-fast-1",
    "groq": "llama-3.3-70b-versatile llama-3.1-8b-instant openai/gpt-oss-120b qwen/qwen3-32b",
    "deepseek": "deepseek-chat deepseek-reasoner",
    "zai": "glm-4.5 glm-4.5-air glm-4.6 glm-4.7 glm-5",
    "cohere": "command-a command-r command-r-plus embed-v4.0",
    "voyageai": "voyage-3 voyage-3-large voyage-code-3",
    "openrouter": "openai/gpt-4o anthropic/claude-sonnet-4.5 z-ai/glm-4.6 google/gemini-2.5-flash",
}
DOLLAR = 1_000_000_000
CHAT = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
EMBEDDING = {"prompt_tokens": 1_000, "total_tokens": 1_000}
OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
AZURE = "https://acme.openai.azure.com/openai/deployments/my-gpt"
HELLO: list[Any] = [{"role": "user", "content": "Hello"}]


def completion(model: str | None, usage: Any = CHAT) -> Any:
    """Return a chat completion as a server gives it."""
    message = {"role": "assistant", "content": "Hi"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    found = {"id": "1", "object": "chat.completion", "created": 1, "choices": [choice]}
    return {**found, "usage": usage} | ({} if model is None else {"model": model})


def answering(model: str) -> Callable[[Any], Any]:
    """Return a server as which a model always answers."""
    return lambda asked: completion(model)


class Called:
    """A budgeted client of a vendor whose server answers as a test says."""

    def __init__(self, url: str, answer: Callable[[Any], Any], limits: str, **options: Any) -> None:
        self.sent: list[Any] = []
        self.ledger = Ledger()
        self.ledger.set_limits("a", parse_limits(limits))
        self.held = 0

        def serve(request: httpx.Request) -> httpx.Response:
            self.sent.append(json.loads(request.content))
            [self.held] = [row.held for row in self.ledger.balance("a") if row.axis == "nano_usd"]
            return httpx.Response(200, json=answer(self.sent[-1]))

        transport = httpx.MockTransport(serve)
        client = OpenAI(
            base_url=url, api_key="k", max_retries=0, http_client=httpx.Client(transport=transport)
        )
        self.client = budgeted(client, ledger=self.ledger, account="a", **options)

    @property
    def spent(self) -> int:
        """The nano-USD that are spent."""
        [row] = [row for row in self.ledger.balance("a") if row.axis == "nano_usd"]
        return row.spent

    def chat(self, model: str = "gpt-4o", **more: Any) -> Any:
        """Make a call."""
        asked = {"model": model, "messages": HELLO, "max_tokens": 200, **more}
        return self.client.chat.completions.create(**asked)


def cost(model: str, usage: Any = CHAT) -> int:
    """Return what a call of a listed model costs."""
    found: int = ListedPrices().get(model).cost_of(usage)[0]  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("vendor", CURRENT)
def test_the_current_models_of_each_vendor_have_a_price(vendor: str) -> None:
    prices = ListedPrices()
    for model in CURRENT[vendor].split():
        price = price_of(prices, model, vendor)
        assert price is not None, model
        assert price.cost(1_000_000, 0) > 0, model
        assert price.cost_of(EMBEDDING)[0] > 0, model


@pytest.mark.parametrize(
    "model", ["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
)
@pytest.mark.parametrize("url", [OPENAI, "http://localhost:8000/v1", OPENROUTER])
def test_embeddings_are_held_and_charged(url: str, model: str) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
    answer = {"object": "list", "data": data, "model": model, "usage": EMBEDDING}
    called = Called(url, lambda asked: answer, "$5/day")
    called.client.embeddings.create(model=model, input="tomato " * 100, encoding_format="float")
    assert called.held > 0
    assert called.spent == cost("openai/" + model, EMBEDDING)


def test_a_model_costs_what_the_vendor_takes_that_is_spoken_to() -> None:
    model = "openai/gpt-oss-120b"
    spent = {}
    for url in ("https://api.groq.com/openai/v1", OPENROUTER):
        called = Called(url, lambda asked: completion(model), "$5")
        called.chat(model)
        spent[url] = called.spent
    assert [*spent.values()] == [cost("groq/" + model), cost("openrouter/" + model)]


@pytest.mark.parametrize("model", ["ft:gpt-4.1:acme::abc", "ft:gpt-4.1-mini", "acme/gpt-4o"])
def test_a_prefix_that_is_no_provider_is_a_part_of_the_name(model: str) -> None:
    for prices in (ListedPrices(), ListedPrices("openai")):
        assert price_of(prices, model) is None
        assert price_of(prices, model, "openai") is None
    called = Called(OPENAI, lambda asked: completion(model), "$5")
    with pytest.raises(APIStatusError, match="no price is known for " + model):
        called.chat(model)
    assert called.sent == []


def test_a_tuned_model_has_the_price_that_is_listed_for_it() -> None:
    tuned = price_of(ListedPrices(), "ft:gpt-4o-mini-2024-07-18:acme::abc", "openai")
    assert tuned.cost(1_000_000, 0) > cost("gpt-4o-mini", {**CHAT, "prompt_tokens": 1_000_000})


def test_the_dearest_of_the_models_that_are_named_is_held() -> None:
    named = ["openai/gpt-4o-mini", "openai/o1-pro"]
    called = Called(OPENROUTER, lambda asked: completion(named[0]), "$5")
    called.chat(named[0], extra_body={"models": named})
    assert called.held > 200 * 600_000
    with pytest.raises(APIStatusError, match="no price is known"):
        called.chat(named[0], extra_body={"models": [*named, "acme/unheard-of"]})


def test_a_fallback_answers_alone() -> None:
    def answer(asked: Any) -> Any:
        return completion(asked["model"])

    prices = {"dear": Price(9_000, 9_000), "cheap": Price("0.1", "0.1")}
    called = Called(OPENROUTER, answer, "$0.01", prices=prices, fallback_model="cheap")
    called.chat("dear", extra_body={"models": ["dear"]})
    assert called.sent[0]["model"] == "cheap"
    assert "models" not in called.sent[0]


def test_a_deployment_is_held_as_the_dearest_until_its_model_is_known() -> None:
    called = Called(AZURE, lambda asked: completion("gpt-4o-2024-08-06"), "$5")
    called.chat("gpt-4o-mini")
    assert called.held > 200 * 500_000
    assert called.spent == cost("gpt-4o-2024-08-06")
    called.chat("gpt-4o-mini")
    assert 200 * 10_000 < called.held < 200 * 50_000
    assert called.spent == 2 * cost("gpt-4o-2024-08-06")


def test_a_deployment_that_is_named_like_its_model_costs_what_that_does() -> None:
    called = Called(AZURE.replace("my-gpt", "gpt-4o"), answering("gpt-4o"), "$5")
    called.chat()
    assert called.spent == cost("azure/gpt-4o")


def test_a_deployment_whose_answers_name_no_known_model_stays_the_dearest() -> None:
    called = Called(AZURE.replace("acme", "three"), answering("my-gpt"), "$5")
    called.chat()
    first = called.held
    called.chat()
    assert called.held == first > 200 * 500_000


def test_the_models_of_deployments_are_kept_by_server() -> None:
    for place, model in (("one", "gpt-4o"), ("two", "o1")):
        called = Called(AZURE.replace("acme", place), answering(model), "$50")
        called.chat()
        called.chat()
        assert called.spent == 2 * cost("azure/" + model)


def test_the_model_that_answered_is_charged() -> None:
    called = Called(OPENROUTER, lambda asked: completion("openai/o1-pro"), "$5")
    called.chat("openai/gpt-4o-mini")
    assert called.spent == cost("openrouter/openai/o1-pro") > 100 * cost("openai/gpt-4o-mini")


def test_a_dated_model_costs_what_is_listed_for_it() -> None:
    called = Called(OPENAI, lambda asked: completion("gpt-4o-2024-05-13"), "$5")
    called.chat("gpt-4o")
    assert called.spent == cost("gpt-4o-2024-05-13") != cost("gpt-4o")


def test_a_stream_says_which_model_answers() -> None:
    first = {"model": "gpt-4o", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    last = {"model": "gpt-4o", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = (first, last, {"model": "gpt-4o", "choices": [], "usage": CHAT})

    def serve(request: httpx.Request) -> httpx.Response:
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=iter([text.encode()]))

    client = httpx.Client(transport=httpx.MockTransport(serve))
    ledger = Ledger()
    ledger.set_limits("a", parse_limits("$5"))
    plain = OpenAI(api_key="k", http_client=client)
    chat = budgeted(plain, ledger=ledger, account="a").chat.completions
    for _ in chat.create(model="gpt-4o-mini", messages=HELLO, stream=True):
        pass
    assert ledger.balance("a")[0].spent == cost("gpt-4o")


@pytest.mark.parametrize("answered", ["gpt-4o-2024-08-06", "mine-2026-01-02", "other"])
def test_a_users_own_price_counts_for_what_it_lacks(answered: str) -> None:
    own = {"gpt-4o": Price(1, 2)}
    called = Called(OPENAI, lambda asked: completion(answered), "$5", prices=own)
    called.chat("gpt-4o")
    assert called.spent == 1_000 * 1_000 + 100 * 2_000


def test_a_users_own_price_counts_before_that_of_the_list() -> None:
    prices = PriceTable({"gpt-4o": Price(1, 2)}, ListedPrices())
    for answered, expected in (
        ("gpt-4o-2024-08-06", 1_200_000),
        ("gpt-4o", 1_200_000),
        ("gpt-4o-mini", cost("gpt-4o-mini")),
        ("unheard-of", 1_200_000),
    ):
        called = Called(OPENAI, answering(answered), "$5", prices=prices)
        called.chat("gpt-4o")
        assert called.spent == expected, answered


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (0.25, 250_000_000),
        (1, DOLLAR),
        (0.0000001, None),
        (0, None),
        (-1, None),
        (1e-12, None),
        ("9", None),
        (True, None),
        ({"total_cost": 0.5}, DOLLAR // 2),
    ],
)
def test_a_reported_cost_counts_where_it_is_more(reported: Any, expected: int | None) -> None:
    usage = {**CHAT, "cost": reported}
    model = "openai/gpt-4o-mini"
    called = Called(OPENROUTER, lambda asked: completion(model, usage), "$5")
    called.chat(model)
    assert called.spent == (expected or cost("openrouter/" + model))


def test_of_a_reported_cost_that_is_absurd_what_was_held_is_charged() -> None:
    usage = {**CHAT, "cost": 1e300}
    model = "openai/gpt-4o-mini"
    called = Called(OPENROUTER, lambda asked: completion(model, usage), "$5")
    called.chat(model)
    assert cost("openrouter/" + model) <= called.spent < DOLLAR


def test_a_reported_cost_is_charged_where_no_price_is_known() -> None:
    usage = {**CHAT, "cost": 0.25}
    called = Called(OPENROUTER, lambda asked: completion("x", usage), "$5")
    called.ledger.set_limits("a", [Limit("calls", 5), Limit("usd", None)])
    called.chat("acme/unheard-of")
    assert called.spent == DOLLAR // 4


def test_a_deployment_has_the_model_that_the_user_says() -> None:
    def answer(asked: Any) -> Any:
        return completion(None)

    called = Called(AZURE, answer, "$5", deployments={"my-gpt": "gpt-4o"})
    called.chat("gpt-4o-mini")
    assert called.spent == cost("gpt-4o")
    own = Called(AZURE, answer, "$5", prices={"my-gpt": Price(1, 2)})
    own.chat("gpt-4o-mini")
    assert own.spent == 1_000 * 1_000 + 100 * 2_000


def test_deployments_are_models_by_name() -> None:
    with pytest.raises(ValueError, match="deployments must be models by name"):
        budgeted(OpenAI(api_key="k"), "$5", deployments={"my-gpt": 5})  # type: ignore[dict-item]


def test_a_report_is_read_once_and_a_price_is_asked_for_once() -> None:
    called = Called(OPENAI, answering("gpt-4o-2024-08-06"), "$5")
    called.chat()
    entered: Counter[Any] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            entered[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        called.chat()
    finally:
        sys.setprofile(before)
    asked = (read_usage, TablePrice.answered_by, ListedPrice.cost_of)
    assert [entered[function.__code__] for function in asked] == [1, 1, 1]
    assert entered[DataSnapshot.find_provider_model.__code__] == 0  # of a model that is known
