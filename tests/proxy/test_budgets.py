"""What a call through the proxy holds, is allowed, and is charged."""

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import openai
import pytest

from budget_core.prices import Price
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy import Proxy
from scripted_model import ScriptedEndpoint
from tests.proxy.support import (
    ASKED,
    CHAT,
    Behind,
    ProxyCommand,
    Request,
    budgeted,
    chunk,
    post,
    spent,
    until,
    usage,
)
from tests.serve.support import PATIENCE

TOOL = {"type": "function", "function": {"name": "list_files", "parameters": {"type": "object"}}}


def answering(http: Request) -> None:
    """Answer any call with a completion of 5 tokens to a prompt of 7."""
    message = {"role": "assistant", "content": "hello"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    http.reply({"id": "1", "model": "m", "choices": choices, "usage": usage(7, 5)})


def test_no_way_to_write_the_path_of_a_call_to_gemini_escapes_the_budget() -> None:
    with Behind(answering) as behind, budgeted(behind.url, "2 calls", strict=True) as made:
        url, account, _ = made
        for colon in (":", "%3A", "%3a"):
            answer = post(f"{url}/v1beta/models/m{colon}generateContent", json={"contents": []})
        assert answer.status_code == 402
        assert len(behind.requests) == 2
        assert spent(account, "calls") == (2, 0)


def asked_of(behind: Behind) -> list[Any]:
    return [json.loads(request.body) for request in behind.requests]


def test_a_call_of_the_openai_sdk_is_held_sent_and_charged() -> None:
    with (
        ScriptedEndpoint(api_key="mine") as endpoint,
        budgeted(endpoint.base_url, "1000 tokens + 2 calls") as (url, account, proxy),
        openai.OpenAI(base_url=f"{url}/v1", api_key="mine") as client,
    ):
        said = client.chat.completions.create(model="scripted", messages=ASKED["messages"])
        assert said.usage is not None
        assert spent(account, "tokens") == (said.usage.total_tokens, 0)
        stream: Any = client.chat.completions.create(
            model="scripted", messages=ASKED["messages"], stream=True
        )
        text = "".join(part.choices[0].delta.content or "" for part in stream)
        assert text == said.choices[0].message.content
        until(lambda: spent(account, "calls") == (2, 0))  # the SDK reads no further than the answer
        row = proxy.usage.total()
        assert row.input + row.output == spent(account, "tokens")[0]
        with pytest.raises(openai.APIStatusError) as refused:
            client.chat.completions.create(model="scripted", messages=ASKED["messages"])
        assert refused.value.status_code == 402
        assert refused.value.code == "insufficient_quota"
        assert len(endpoint.requests) == 2


def test_a_refusal_says_what_is_left_and_until_when() -> None:
    with Behind(answering) as behind, budgeted(behind.url, "0 calls/day") as (url, _, _):
        answer = post(url + CHAT, json=ASKED)
        assert answer.status_code == 402
        assert answer.headers["x-should-retry"] == "false"
        assert answer.headers["ratelimit"].startswith('"calls per day";r=0;t=')
        assert answer.json()["error"]["budget"]["resets_at"] > 0
        anthropic = post(f"{url}/v1/messages", json={**ASKED, "max_tokens": 9})
        assert anthropic.status_code == 402
        assert anthropic.json()["error"]["type"] == "billing_error"
        assert behind.requests == []


def test_a_limit_of_ten_minutes_says_by_when_it_is_free() -> None:
    with Behind(answering) as behind, budgeted(behind.url, "1 calls/10 min") as (url, _, _):
        assert post(url + CHAT, json=ASKED).status_code == 200
        refused = post(url + CHAT, json=ASKED)
        assert refused.headers["ratelimit-policy"].endswith(";q=1;w=600")
        error = refused.json()["error"]
        assert "has 0 of 1 calls per 10 min left, not 1, until " in error["message"]
        assert " min at the latest: 1 spent, 0 held" in error["message"]
        assert error["budget"]["window"] == "rolling 600/60"


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1beta/models/m:generateContent"])
def test_the_same_call_again_and_again_is_refused_by_name(path: str) -> None:
    body = {"contents": []} if "beta" in path else {**ASKED, "max_tokens": 9}
    with (
        Behind(answering) as behind,
        budgeted(behind.url, "99 calls", repeats=3) as (url, account, _),
    ):
        assert [post(url + path, json=body).status_code for _ in range(2)] == [200, 200]
        answer = post(url + path, json=body)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (402, "false")
        assert "call 3 in a row with the same model, messages and tools" in answer.text
        assert "repeated_call" in answer.text.lower()
        assert spent(account, "calls") == (2, 0)


def test_the_limit_of_an_answer_is_lowered_to_what_is_left() -> None:
    with Behind(answering) as behind, budgeted(behind.url, "100 tokens") as (url, _, _):
        post(url + CHAT, json={**ASKED, "max_completion_tokens": 500})
        post(url + CHAT, json=ASKED)
        one, two = (body["max_completion_tokens"] for body in asked_of(behind))
        assert 50 < one < 100
        assert 0 < two < one


@pytest.mark.parametrize("limits", ["20 calls", "5 calls/day + 7 calls/hour"])
def test_limits_of_calls_and_deadlines_change_nothing_in_a_request(limits: str) -> None:
    with Behind(answering) as behind, budgeted(behind.url, limits) as (url, _, _):
        for _ in range(2):
            headers = {"x-microbudget-timeout": "120000"}
            assert post(url + CHAT, json=ASKED, headers=headers).status_code == 200
        assert asked_of(behind) == [ASKED] * 2


def test_money_is_counted_by_prices_and_a_model_without_one_is_refused() -> None:
    prices = {"scripted": Price("1", "2")}
    with Behind(answering) as behind, budgeted(behind.url, "$1", prices=prices) as found:
        url, account, proxy = found
        assert post(url + CHAT, json=ASKED).status_code == 200
        assert spent(account, "nano_usd") == (17_000, 0)
        row = proxy.usage.rows()["scripted"]
        assert (row.nano_usd, row.dollars, row.unpriced) == (17_000, 0.000_017, 0)
        answer = post(url + CHAT, json={**ASKED, "model": "unheard-of"})
        assert answer.status_code == 402
        assert "no price is known for unheard-of" in answer.json()["error"]["message"]
        assert len(behind.requests) == 1


@pytest.mark.parametrize("model", ["error-400", "error-429", "error-500"])
def test_what_the_upstream_refuses_costs_nothing_and_passes_untouched(model: str) -> None:
    with ScriptedEndpoint() as endpoint, budgeted(endpoint.base_url, "9 calls") as found:
        url, account, _ = found
        body = {**ASKED, "model": model}
        through = post(url + CHAT, json=body)
        bare = post(endpoint.base_url + CHAT.removeprefix("/v1"), json=body)
        assert (through.status_code, through.content) == (bare.status_code, bare.content)
        assert through.headers.get("retry-after") == bare.headers.get("retry-after")
        assert spent(account, "calls") == (0, 0)


def test_an_upstream_that_cannot_be_reached_costs_nothing() -> None:
    with Behind(answering) as behind:
        gone = behind.url
    with budgeted(gone, "9 calls") as (url, account, proxy):
        answer = post(url + CHAT, json=ASKED)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_unreachable"
        assert spent(account, "calls") == (0, 0)
        assert proxy.usage.rows() == {}


def test_a_call_waits_for_what_another_one_holds() -> None:
    go, first = threading.Event(), threading.Event()

    def slow(http: Request) -> None:
        first.set()
        assert go.wait(PATIENCE)
        answering(http)

    with Behind(slow) as behind, budgeted(behind.url, "130 tokens", wait=PATIENCE) as found:
        url, account, _ = found
        answers: list[int] = []

        def ask() -> None:
            body = {**ASKED, "max_tokens": 60}
            answers.append(post(url + CHAT, json=body).status_code)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        threads[0].start()
        assert first.wait(PATIENCE)
        for thread in threads[1:]:
            thread.start()
        go.set()
        for thread in threads:
            thread.join()
        assert answers == [200] * 4
        assert [body["max_tokens"] for body in asked_of(behind)] == [60] * 4
        assert spent(account, "tokens") == (48, 0)


@pytest.mark.parametrize("notices", [False, True])
def test_the_model_is_told_and_tools_are_withdrawn_only_where_notices_are_on(notices: bool) -> None:
    with Behind(answering) as behind:
        options = {"notices": notices}
        with budgeted(behind.url, "10 calls + 1500 tokens", **options) as (url, _, _):
            for _ in range(9):
                body = {**ASKED, "tools": [TOOL], "max_tokens": 1400}
                assert post(url + CHAT, json=body).status_code == 200
        plain = [
            body["messages"] == ASKED["messages"] and body.get("tools") == [TOOL]
            for body in asked_of(behind)
        ]
        assert all(plain) is not notices


def test_the_fallback_model_answers_where_the_one_asked_for_does_not_fit() -> None:
    prices = {"scripted": Price("100", "1000"), "small": Price("0", "0")}
    account = BudgetAccount(parse_limits("$0.000001"), prices=prices, fallback_model="small")
    with Behind(answering) as behind, Proxy({"it": behind.url}, [account]).running() as url:
        assert post(url + CHAT, json=ASKED).status_code == 200
        assert asked_of(behind)[0]["model"] == "small"


SETTINGS = """\
[accounts."org"]
limit = "9 calls"
[accounts."org/parrot"]
repeats = 2
[accounts."org/quiet"]
limit = "2 calls"
strict = true
max_tokens = 11
[prices."scripted"]
input = "1"
output = "2"
"""


def test_the_command_reads_limits_rules_and_prices_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with Behind(answering) as behind:
        options = ("--upstream", f"it={behind.url}", "--settings", tmp_path / "settings.toml")
        with ProxyCommand(*options, "--account", "org", "--limit", "$1 + 8 calls") as proxy:

            def ask(path: str, account: str, body: Any = ASKED) -> int:
                headers = {"x-microbudget-account": account}
                return post(proxy.url + path, json=body, headers=headers).status_code

            assert ask(CHAT, "org/quiet") == 200
            assert asked_of(behind)[0]["max_completion_tokens"] == 11
            assert ask("/v1/images", "org/quiet") == 403
            assert ask("/v1/images", "org") == 200
            assert ask(CHAT, "org", {**ASKED, "model": "unheard-of"}) == 402
            assert ask(CHAT, "org/quiet") == 200
            assert ask(CHAT, "org/quiet") == 402
            assert ask(CHAT, "other") == 403
            assert [ask(CHAT, "org/parrot") for _ in range(3)] == [200, 402, 402]
            assert ask(CHAT, "org/parrot", {**ASKED, "max_tokens": 3}) == 200
            assert ask(CHAT, "org") == 200
            code, complaints = proxy.end()
            assert code == 0
            assert "no price is known for unheard-of" in complaints


def test_a_body_that_is_not_json_is_refused_since_no_budget_can_be_kept() -> None:
    with Behind(answering) as behind, budgeted(behind.url, "9 calls") as (url, account, _):
        answer = post(url + CHAT, content=b"{")
        assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
        assert spent(account, "calls") == (0, 0)
        assert behind.requests == []


def test_a_stream_that_is_compressed_all_the_same_is_passed_on_and_counts_as_unknown() -> None:
    def act(http: Request) -> None:
        assert http.headers["Accept-Encoding"] == "identity"
        content = gzip.compress(f"data: {json.dumps(chunk('', usage(7, 5)))}\n\n".encode())
        http.reply(content, Content_Type="text/event-stream", Content_Encoding="gzip")

    with Behind(act) as behind, budgeted(behind.url, "9999 tokens") as (url, account, proxy):
        answer = post(url + CHAT, json={**ASKED, "stream": True})
        assert '"prompt_tokens": 7' in answer.text
        assert sum(spent(account, "tokens")) > 12
        assert proxy.usage.rows()["scripted"].estimated == 1
