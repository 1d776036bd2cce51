"""The page `/metrics` of `serve` and `proxy`, as a scraper reads it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.prices import Price
from budget_cpython import Ledger
from budget_cpython.telemetry.limits_shown import nearest_to_their_end
from budget_cpython.web.keys import KeyFile
from scripted_model import ScriptedEndpoint
from tests.proxy.support import ASKED, CHAT, ProxyCommand, budgeted, get, post
from tests.serve.support import MIDNIGHT, Client, Failing, Service, make_client

Labels = tuple[tuple[str, str], ...]
Samples = dict[str, dict[Labels, float]]
DAY: Labels = (("account", "org"), ("axis", "usd"), ("window", "day"))
PRICES = {"scripted": Price(2, 8)}


def samples(
    text: str, parse: Any = text_string_to_metric_families
) -> dict[str, dict[Labels, float]]:
    """Return the value of each series, by its name and labels."""
    found: Samples = {}
    for family in parse(text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return found


def scrape(client: Client, key: str | None = None, **headers: str) -> httpx.Response:
    """Read the page of an app in this process."""
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"

    async def read() -> httpx.Response:
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as reader:
            return await reader.get("/metrics", headers=headers)

    return asyncio.run(read())


@pytest.fixture
def client() -> Client:
    client = make_client(
        ("org", "nano_usd", 10**9, "day"), ("org/lab", "tokens", 1000, "run"), metrics=1000
    )
    client("POST", "/v1/charge/org/lab", {"amounts": {"usd": "0.25", "tokens": 600}})
    client("POST", "/v1/reserve/org/lab", {"amounts": {"usd": "0.25", "tokens": 100}})
    return client


def test_limits_are_gauges_in_dollars(client: Client) -> None:
    found = samples(scrape(client).text)
    for name, value in (
        ("limit", 1),
        ("spent", 0.25),
        ("held", 0.25),
        ("remaining", 0.5),
        ("utilization_ratio", 0.5),
        ("reset_timestamp_seconds", MIDNIGHT),
    ):
        assert found[f"microbudget_budget_{name}"][DAY] == value
    assert found["microbudget_ledger_up"] == {(): 1}
    assert found["microbudget_budget_accounts_left_out"] == {(): 0}
    assert len(found["microbudget_budget_spent"]) == 2
    assert len(found["microbudget_budget_reset_timestamp_seconds"]) == 1  # a run's has no end


def test_refusals_are_counted_by_account_axis_and_reason(client: Client) -> None:
    for _ in range(2):
        client("POST", "/v1/reserve/org/lab", {"amounts": {"tokens": 700}})
    client("POST", "/v1/reserve/other", {"amounts": {"tokens": 700}})
    (first, second) = samples(scrape(client).text)["microbudget_refusals_total"].items()
    assert first == ((("account", "org/lab"), ("axis", "tokens"), ("reason", "limit")), 2)
    assert second == ((("account", "other"), ("axis", ""), ("reason", "unknown_account")), 1)


def test_openmetrics_is_answered_to_who_asks_for_it(client: Client) -> None:
    answer = scrape(client, Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert samples(answer.text, openmetrics)["microbudget_budget_spent"][DAY] == 0.25


def test_keys_with_the_right_to_read_see_what_is_below_their_account(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    every = keys.add("scraper", "*", ["read"])
    lab = keys.add("lab", "org/lab", ["read"])
    worker = keys.add("worker", "org", ["reserve"])
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 10)])
    ledger.set_limits("org/lab", [Limit("tokens", 5)])
    client = Client(ledger, keys, metrics=1000)
    for path in ("org", "org/lab"):
        client("POST", f"/v1/reserve/{path}", {"amounts": {"tokens": 50}}, worker)
    for key, accounts in ((every, {"org", "org/lab"}), (lab, {"org/lab"})):
        found = samples(scrape(client, key).text)
        for name in ("microbudget_budget_limit", "microbudget_refusals_total"):
            shown = {dict(labels)["account"] for labels in found[name]}
            assert shown <= accounts
        assert {dict(labels)["account"] for labels in found["microbudget_budget_limit"]} == accounts
    assert scrape(client, worker).status_code == 403
    assert scrape(client).status_code == scrape(client, "mb.scraper.wrong").status_code == 401


def test_without_keys_only_this_machine_is_answered(client: Client) -> None:
    assert scrape(client, Host="example.com").status_code == 403
    assert scrape(client, Origin="https://example.com").status_code == 403


def test_the_page_is_there_only_where_it_is_asked_for() -> None:
    client = make_client(("org", "tokens", 10, "day"))
    assert scrape(client).status_code == 404


def test_a_ledger_that_fails_is_down() -> None:
    ledger: Any = Failing(LedgerUnavailableError("no route to host"))
    ledger.balances = ledger.reserve
    found = samples(scrape(Client(ledger, metrics=1000)).text)
    assert found["microbudget_ledger_up"] == {(): 0}
    assert "microbudget_budget_spent" not in found


def test_of_ten_thousand_accounts_the_nearest_to_their_end_are_shown() -> None:
    ledger = Ledger()
    for number in range(10_000):
        ledger.set_limits(f"a{number:05}", [Limit("tokens", 100_000, "day"), Limit("calls", None)])
    for number in (7, 4242, 9999):
        ledger.charge(f"a{number:05}", {"tokens": number})
    found = samples(scrape(Client(ledger, metrics=2)).text)
    shown = {dict(labels)["account"] for labels in found["microbudget_budget_spent"]}
    assert shown == {"a04242", "a09999"}
    assert found["microbudget_budget_accounts_left_out"] == {(): 9998}


def test_an_account_with_a_limit_of_nothing_is_at_its_end() -> None:
    ledger = Ledger()
    for name, cap in (("half", 10), ("none", 0), ("free", None)):
        ledger.set_limits(name, [Limit("tokens", cap)])
    ledger.charge("half", {"tokens": 5})
    for most, names in ((1, ["none"]), (2, ["none", "half"]), (3, ["free", "half", "none"])):
        rows, left_out = nearest_to_their_end(ledger.balances(), most)
        assert ([row.account for row in rows], left_out) == (names, 3 - most)


def test_hostile_names_of_models_make_no_series_of_their_own() -> None:
    name = 'x"} 1\nmicrobudget_ledger_up 0\n'
    with (
        ScriptedEndpoint() as endpoint,
        budgeted(endpoint.root_url, "9 calls", metrics=10) as (url, _, _),
    ):
        post(url + CHAT, json={**ASKED, "model": name})
        found = samples(get(url + "/metrics").text)
        assert found["microbudget_ledger_up"] == {(): 1}
        ((labels, _),) = found["gen_ai_client_operation_duration_seconds_count"].items()
        assert dict(labels)["gen_ai_request_model"].startswith('x"} 1\\n')


def test_the_proxy_counts_calls_tokens_and_cost() -> None:
    with (
        ScriptedEndpoint() as endpoint,
        budgeted(endpoint.root_url, "2 calls + $1", metrics=10, prices=PRICES) as (url, _, _),
    ):
        for status in (200, 200, 402):
            assert post(url + CHAT, json=ASKED).status_code == status
        found = samples(get(url + "/metrics").text)
        asked = (
            ("gen_ai_operation_name", "chat"),
            ("gen_ai_provider_name", "openai"),
            ("gen_ai_request_model", "scripted"),
        )
        durations = found["gen_ai_client_operation_duration_seconds_count"]
        assert durations == {(("error_type", ""), *asked): 2}
        tokens = found["gen_ai_client_token_usage_sum"]
        used = {dict(labels)["gen_ai_token_type"]: count for labels, count in tokens.items()}
        cost = found["microbudget_cost_dollars_total"][asked]
        assert cost == pytest.approx((2 * used["input"] + 8 * used["output"]) / 1_000_000)
        (refused,) = found["microbudget_refusals_total"].items()
        assert refused == ((("account", "agent"), ("axis", "calls"), ("reason", "limit")), 1)
        spent = {dict(labels)["axis"]: n for labels, n in found["microbudget_budget_spent"].items()}
        assert spent["calls"] == 2
        assert spent["usd"] == pytest.approx(cost)


def test_a_large_request_that_is_refused_unread_is_counted() -> None:
    large = {**ASKED, "messages": [{"role": "user", "content": "x" * 2_000_000}]}
    with (
        ScriptedEndpoint() as endpoint,
        budgeted(endpoint.root_url, "1 call", metrics=10) as (url, *_),
    ):
        assert post(url + CHAT, json=ASKED).status_code == 200
        assert post(url + CHAT, json=large).status_code == 402
        found = samples(get(url + "/metrics").text)
        assert list(found["microbudget_refusals_total"].values()) == [1]


def test_a_proxy_without_metrics_passes_the_path_on() -> None:
    with ScriptedEndpoint() as endpoint, budgeted(endpoint.root_url, "1 call") as (url, _, _):
        assert "microbudget" not in get(url + "/metrics").text


def test_the_workers_of_a_proxy_count_together(tmp_path: Path) -> None:
    ledger = f"sqlite:{tmp_path / 'ledger.db'}"
    with (
        ScriptedEndpoint() as endpoint,
        ProxyCommand(
            "--upstream", f"openai={endpoint.root_url}", "--ledger", ledger,
            "--limit", "100 calls/day", "--workers", 2, "--metrics",
        ) as proxy,
    ):  # fmt: skip
        for _ in range(12):
            assert post(proxy.url + CHAT, json=ASKED).status_code == 200
        for _ in range(6):  # whichever worker answers
            found = samples(get(proxy.url + "/metrics").text)
            assert sum(found["gen_ai_client_operation_duration_seconds_count"].values()) == 12
        assert proxy.end() == (0, "")


def test_the_command_serves_it(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("scraper", "*", ["read", "reserve"])
    with Service(
        "--engine", "memory:", "--listen", "127.0.0.1:0", "--keys", keys.path, "--metrics"
    ) as service:
        sent = {"Authorization": f"Bearer {key}"}
        found = samples(get(service.url + "/metrics", headers=sent).text)
        assert found["microbudget_ledger_up"] == {(): 1}
        assert get(service.url + "/metrics").status_code == 401
