"""Bodies that are made to cost much: deep, of many values, large, from accounts that are spent."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from budget_core.prices import Price
from budget_core.usage_estimate import estimate_tokens
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.attempt import Terms
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy.app import MAX_BODY
from budget_cpython.vendors.body import LARGE, MAX_DEPTH, MAX_VALUES
from budget_cpython.vendors.registry import find_format
from budget_cpython.vendors.request import UnreadableRequestError
from tests.proxy.support import Behind, Request, budgeted, post, spent, usage

COMPLETIONS = "/v1/completions"
MEGABYTE = 1 << 20


def answer(http: Request) -> None:
    http.reply({"choices": [{"text": "hi"}], "usage": usage(7, 5)})


def listed(items: bytes) -> bytes:
    return b'{"model": "scripted", "max_tokens": 5, "prompt": [' + items + b"]}"


DEEP = listed(b"[" * 486 + b'"a"' + b"]" * 486)
MANY = {
    "tokens": listed(b"1," * MAX_VALUES + b"1"),
    "texts": listed(b'"a",' * MAX_VALUES + b'"a"'),
    "lists": listed(b"[]," * MAX_VALUES + b"[]"),
    "objects": listed(b"{}," * MAX_VALUES + b"{}"),
    "levels": listed(b"[" * MAX_VALUES + b"]" * MAX_VALUES),
}


@pytest.mark.parametrize("body", [DEEP, *MANY.values()], ids=["deep", *MANY])
def test_a_body_that_costs_more_than_its_size_is_refused_and_nothing_is_held(body: bytes) -> None:
    with Behind(answer) as behind, budgeted(behind.url, "9 calls + 9000 tokens") as place:
        url, account, _ = place
        said = post(f"{url}{COMPLETIONS}", content=body)
        assert (said.status_code, said.headers["x-should-retry"]) == (400, "false")
        assert said.json()["error"]["code"] == "unreadable_request"
        assert len(said.content) < 1000
        assert behind.requests == []
        assert spent(account, "calls") == spent(account, "tokens") == (0, 0)


def test_a_budgeted_client_refuses_a_deep_body_too() -> None:
    account = BudgetAccount(parse_limits("9 calls"))
    client = budgeted_http_client(httpx.Client(base_url="https://api.openai.com"), [account])
    said = client.post(COMPLETIONS, content=DEEP)
    assert said.status_code == 400
    assert isinstance(said.extensions["microbudget"], UnreadableRequestError)
    assert spent(account, "calls") == (0, 0)


@pytest.mark.parametrize(
    "prompt",
    [
        json.loads("[" * (MAX_DEPTH - 2) + '"a"' + "]" * (MAX_DEPTH - 2)),
        [list(range(300)) for _ in range(1000)],
        ['\\"{[' * 1000],
        "a [b, {c: " * 200_000,
        "é模\U0001f600" * 50_000,
    ],
    ids=["deep", "tokens", "escapes", "code", "letters"],
)
def test_what_vendors_take_passes(prompt: Any) -> None:
    with Behind(answer) as behind, budgeted(behind.url, "9 calls") as (url, account, _):
        body = {"model": "scripted", "max_tokens": 5, "prompt": prompt}
        assert post(f"{url}{COMPLETIONS}", json=body).status_code == 200
        assert json.loads(behind.requests[0].body)["prompt"] == prompt
        assert spent(account, "calls") == (1, 0)


@pytest.mark.parametrize("limits", ["1 call", "12 tokens", "1 call/day + 9999 tokens"])
def test_a_spent_account_is_refused_before_its_body_is_parsed(limits: str) -> None:
    unreadable = b"[" * (LARGE + 1)
    with Behind(answer) as behind, budgeted(behind.url, limits) as (url, _, _):
        assert post(f"{url}{COMPLETIONS}", content=unreadable).status_code == 400
        body = {"model": "scripted", "max_tokens": 5, "prompt": "hello"}
        assert post(f"{url}{COMPLETIONS}", json=body).status_code == 200
        said = post(f"{url}{COMPLETIONS}", content=unreadable)
        assert said.status_code == 402
        budget = said.json()["error"]["budget"]
        assert (budget["asked"], budget["left"]) == (1, 0)
        assert len(behind.requests) == 1


def test_a_free_model_answers_where_money_is_spent() -> None:
    prices = {"dear": Price("1000000", "1000000"), "free": Price("0", "0")}
    with Behind(answer) as behind, budgeted(behind.url, "$20", prices=prices) as (url, _, _):
        body = {"model": "dear", "max_tokens": 5, "prompt": "hello"}
        assert post(f"{url}{COMPLETIONS}", json=body).status_code == 200
        large = {"model": "free", "max_tokens": 5, "prompt": "a" * 2 * LARGE}
        assert post(f"{url}{COMPLETIONS}", json=large).status_code == 200


class Noted:
    """An account that notes the messages of each call."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def hold(self, call: Any) -> None:
        self.messages.append(call.messages)

    async def settle(self, hold: None, outcome: Any) -> None:
        """Take it as it is."""


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        (COMPLETIONS, {"prompt": ["a tomato", [1, 2], "b"] * 10_000}),
        ("/v1/embeddings", {"input": ["a tomato"] * 10_000}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}] * 10_000}),
    ],
)
def test_an_event_loop_gets_the_size_of_a_large_prompt_and_not_the_prompt(
    path: str, prompt: dict[str, Any]
) -> None:
    noted = Noted()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={}))
    client = budgeted_http_client(httpx.AsyncClient(transport=transport))
    terms = Terms((), noted)
    body = {"model": "scripted", **prompt}
    url = "https://api.openai.com" + path
    asyncio.run(client.post(url, json=body, extensions={"microbudget": terms}))
    [[message]] = noted.messages
    wire = find_format("POST", path)
    assert wire is not None
    whole = wire.read(body).messages
    assert estimate_tokens(whole) > 40_000
    assert estimate_tokens([message]) == estimate_tokens(whole)


LONG = "a tomato " * 50_000
PARTS = [{"type": "text", "text": LONG}]
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**HELLO, "functions": [{"name": "f", "description": LONG}]}),
        ("/v1/chat/completions", {**HELLO, "response_format": {"json_schema": {"schema": LONG}}}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": {"text": LONG}}]}),
        ("/v1/chat/completions", {**HELLO, "tools": [{"function": {"name": "f" * 9}}] * 40_000}),
        ("/v1/embeddings", {"input": [{"text": LONG}]}),
        ("/v1/messages", {"messages": [{"content": [{"source": {"content": PARTS}}]}]}),
        ("/v1/messages", {"messages": [{"content": [{"content": [{"content": PARTS}]}]}]}),
        ("/v1beta/models/m:generateContent", {"system_instruction": {"parts": PARTS[0]}}),
    ],
)
def test_a_long_text_counts_wherever_it_is_in_a_body(path: str, body: dict[str, Any]) -> None:
    with Behind(answer) as behind, budgeted(behind.url, "80_000 tokens") as (url, account, _):
        said = post(url + path, json={"model": "scripted", "max_tokens": 5, **body})
        assert said.status_code == 402
        assert behind.requests == []
        assert spent(account, "tokens") == (0, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m" * 501},
        {"models": ["m" * 501]},
        {"models": [f"m{i}" for i in range(21)]},
    ],
)
def test_names_of_models_that_take_long_to_look_up_are_refused(body: dict[str, Any]) -> None:
    with Behind(answer) as behind, budgeted(behind.url, "$5") as (url, account, _):
        said = post(url + "/v1/chat/completions", json={**HELLO, "model": "gpt-4o", **body})
        assert said.status_code == 400
        assert "the request names" in said.json()["error"]["message"]
        assert len(said.content) < 1000
        assert spent(account, "calls") == (0, 0)


def test_what_is_attached_counts_by_its_own_rule() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    message = {"role": "user", "content": [picture]}
    with Behind(answer) as behind, budgeted(behind.url, "9_000 tokens") as (url, _, _):
        body = {"model": "gpt-4o", "max_tokens": 5, "messages": [message]}
        assert post(url + "/v1/chat/completions", json=body).status_code == 200


def test_a_request_has_at_most_32_megabytes() -> None:
    assert MAX_BODY == 32 * MEGABYTE
