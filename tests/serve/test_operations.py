"""Each operation over HTTP does what it does on the ledger."""

import asyncio
from inspect import signature

import httpx
import pytest

from budget_core.ledger.checks import MAX_DEPTH, MAX_SEGMENT
from budget_core.ledger.http_client import HttpLedger
from tests.serve.support import DOCUMENT, MIDNIGHT, NOON, Client, make_client, validate

DAILY = ("org", "tokens", 100, "day")


@pytest.fixture
def ask() -> Client:
    return make_client(DAILY)


def reserve(ask: Client, tokens: int, **more: object) -> httpx.Response:
    return ask("POST", "/v1/reserve/org/a", {"amounts": {"tokens": tokens}, **more})


def test_a_hold_is_taken_and_shown(ask: Client) -> None:
    answer = reserve(ask, 60, key="k", ttl=60)
    assert answer.status_code == 200
    assert answer.json() == {
        "path": "org/a",
        "id": "k",
        "amounts": {"tokens": 60},
        "state": "held",
        "expires_at": NOON + 60,
        "actual": None,
    }
    assert ask("GET", "/v1/hold/org/a?id=k").json() == answer.json()


def test_an_amount_without_a_bound_is_refused_by_a_cap_and_else_holds_nothing(ask: Client) -> None:
    answer = ask("POST", "/v1/reserve/org", {"amounts": {"tokens": None}})
    assert (answer.status_code, answer.json()["left"]) == (429, 100)
    answer = ask("POST", "/v1/reserve/org", {"amounts": {"calls": None}})
    assert (answer.status_code, answer.json()["amounts"]) == (200, {})
    assert ask("POST", "/v1/charge/org", {"amounts": {"tokens": None}}).status_code == 422


def test_dollars_are_taken_and_shown_in_nano_usd(ask: Client) -> None:
    rows = [{"axis": "usd", "cap": "5.00", "window": "day"}]
    shown = ask("PUT", "/v1/limits/org", {"limits": rows}).json()["limits"]
    assert [(row["axis"], row["cap"]) for row in shown] == [("nano_usd", 5_000_000_000)]
    held = ask("POST", "/v1/reserve/org/a", {"amounts": {"usd": "0.05"}, "key": "k"}).json()
    assert held["amounts"] == {"nano_usd": 50_000_000}
    spent = ask("POST", "/v1/commit/org/a", {"id": "k", "actual": {"usd": 0.02}}).json()
    assert spent["actual"] == {"nano_usd": 20_000_000}
    tiny = ask("POST", "/v1/charge/org/a", {"amounts": {"usd": 1e-10}})
    assert (tiny.status_code, "at most 9 decimals" in tiny.text) == (422, True)
    schemas = DOCUMENT["components"]["schemas"]
    for name, field in (("ChargeRequest", "amounts"), ("CommitRequest", "actual")):
        validate(schemas[name]["properties"][field], {"usd": "0.05", "tokens": 1})


def test_a_hold_without_a_key_is_given_one_that_can_be_settled_later(ask: Client) -> None:
    ids = [reserve(ask, 5).json()["id"] for _ in range(2)]
    assert ids[0] != ids[1]
    for _ in range(2):
        body = {"id": ids[0], "actual": {"tokens": 3}}
        settled = ask("POST", "/v1/commit/org/a", body).json()
        assert (settled["state"], settled["actual"]) == ("committed", {"tokens": 3})


def test_a_request_made_twice_with_a_key_holds_once(ask: Client) -> None:
    header = {"Idempotency-Key": "k"}
    body = {"amounts": {"tokens": 60}}
    first = ask("POST", "/v1/reserve/org", body, headers=header)
    again = ask("POST", "/v1/reserve/org", {**body, "key": "k"}, headers=header)
    assert first.json() == again.json()
    assert ask.ledger.balance("org")[0].held == 60


def test_two_different_keys_in_one_request_are_refused(ask: Client) -> None:
    answer = ask(
        "POST", "/v1/charge/org", {"amounts": {}, "key": "k"}, headers={"Idempotency-Key": "l"}
    )
    assert answer.status_code == 409
    assert "Idempotency-Key" in answer.json()["message"]


def test_too_much_is_refused_with_all_the_figures(ask: Client) -> None:
    reserve(ask, 60)
    answer = reserve(ask, 41)
    said = answer.json()
    assert "has 40 of 100 tokens per day left" in said.pop("message")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "Mon, 02 Mar 2026 00:00:00 GMT"
    assert answer.headers["ratelimit-policy"] == '"tokens per day";q=100;w=86400'
    assert answer.headers["ratelimit"] == '"tokens per day";r=40;t=43200'
    assert said == {
        "error": "budget_exceeded",
        "scope": "org",
        "axis": "tokens",
        "window": "day",
        "asked": 41,
        "limit": 100,
        "spent": 0,
        "held": 60,
        "left": 40,
        "resets_at": MIDNIGHT,
        "waited_ms": 0,
    }


def test_a_limit_that_never_resets_names_no_time_to_try_again() -> None:
    answer = make_client(("org", "tokens", 1, "run"))(
        "POST", "/v1/reserve/org", {"amounts": {"tokens": 2}}
    )
    assert answer.status_code == 429
    assert "retry-after" not in answer.headers
    assert answer.json()["resets_at"] is None


def test_a_whole_number_may_be_written_as_other_languages_do(ask: Client) -> None:
    sent = b'{"amounts": {"tokens": 6.0e1}, "ttl": 60.0}'
    kind = {"Content-Type": "application/json; charset=utf-8"}
    body = {"amounts": {"tokens": 60}, "ttl": 60}
    ask("POST", "/v1/reserve/org", body, content=sent, headers=kind)
    assert ask.ledger.balance("org")[0].held == 60


def test_holds_are_released_extended_and_charged(ask: Client) -> None:
    reserve(ask, 60, key="k")
    extended = ask("POST", "/v1/extend/org/a", {"id": "k", "ttl": 900})
    assert extended.json()["expires_at"] == NOON + 900
    assert ask("POST", "/v1/release/org/a", {"id": "k"}).json()["state"] == "released"
    refused = ask("POST", "/v1/extend/org/a", {"id": "k"})
    assert (refused.status_code, refused.json()["error"]) == (409, "hold_settled")
    assert refused.json()["state"] == "released"
    charged = ask("POST", "/v1/charge/org/a", {"amounts": {"tokens": 500}, "key": "c"}).json()
    assert (charged["state"], charged["expires_at"]) == ("committed", None)
    assert ask.ledger.balance("org")[0].spent == 500


def test_a_balance_shows_every_limit_above(ask: Client) -> None:
    ask("PUT", "/v1/limits/org/a", {"limits": [{"axis": "calls", "cap": None}]})
    reserve(ask, 60)
    first, second = ask("GET", "/v1/balance/org/a").json()["balances"]
    assert (first["account"], first["held"], first["left"], first["debt"]) == ("org", 60, 40, 0)
    assert (first["begins_at"], first["resets_at"]) == (NOON - 43_200, MIDNIGHT)
    assert (second["account"], second["limit"], second["window"]) == ("org/a", None, "run")


def test_history_shows_windows_that_are_over(ask: Client) -> None:
    reserve(ask, 60, key="k")
    ask("POST", "/v1/commit/org/a", {"id": "k"})
    ask.clock.advance(86_400)
    (row,) = ask("GET", "/v1/history/org").json()["balances"]
    assert (row["spent"], row["resets_at"]) == (60, MIDNIGHT)


def test_limits_are_set_shown_and_taken_away(ask: Client) -> None:
    rows = [
        {"axis": "calls", "cap": 5, "window": "hour"},
        {"axis": "tokens", "cap": None, "window": "rolling 3600/60"},
    ]
    assert ask("PUT", "/v1/limits/lab", {"limits": rows}).json() == {"limits": rows}
    assert ask("GET", "/v1/limits/lab").json() == {"limits": rows}
    assert ask("GET", "/v1/accounts").json() == {"accounts": ["lab", "org"], "next": None}
    assert ask("PUT", "/v1/limits/lab", {"limits": []}).json() == {"limits": []}
    assert ask("GET", "/v1/balance/lab").json()["error"] == "unknown_account"


def test_accounts_come_a_page_at_a_time() -> None:
    ask = make_client(*((f"org/{n:03}", "calls", 1, "run") for n in range(101)))
    first = ask("GET", "/v1/accounts").json()
    assert (len(first["accounts"]), first["next"]) == (100, "org/099")
    last = ask("GET", f"/v1/accounts?after={first['next']}").json()
    assert last == {"accounts": ["org/100"], "next": None}


def test_a_page_of_the_longest_accounts_is_not_too_much_for_a_small_client() -> None:
    longest = "/".join(["a" * MAX_SEGMENT] * (MAX_DEPTH - 1))
    rows = ((f"{longest}/{n:0{MAX_SEGMENT}}", "calls", 1, "run") for n in range(101))
    answer = make_client(*rows)("GET", "/v1/accounts")
    most = signature(HttpLedger).parameters["max_response_bytes"].default
    assert len(answer.content) < most - 1024


def test_expire_counts_expired_holds(ask: Client) -> None:
    reserve(ask, 60, ttl=1)
    ask.clock.advance(1)
    assert ask("POST", "/v1/expire").json() == {"expired": 1}


def test_an_unknown_name_is_404_and_a_reused_key_409(ask: Client) -> None:
    for method, url, body, word in (
        ("POST", "/v1/reserve/lab", {"amounts": {}}, "unknown_account"),
        ("GET", "/v1/history/lab", None, "unknown_account"),
        ("POST", "/v1/commit/org", {"id": "k"}, "unknown_hold"),
        ("GET", "/v1/hold/org?id=k", None, "unknown_hold"),
    ):
        answer = ask(method, url, body)
        assert (answer.status_code, answer.json()["error"]) == (404, word)
    reserve(ask, 5, key="k")
    answer = reserve(ask, 6, key="k")
    assert (answer.status_code, answer.json()["error"]) == (409, "key_reused")
    assert (answer.json()["path"], answer.json()["key"]) == ("org/a", "k")


def test_a_path_may_have_every_character_of_a_path(ask: Client) -> None:
    path = "org/a.b_c-d@e+f=g/..h"
    for shown in (path, path.replace("@", "%40").replace("/", "%2F")):
        held = ask("POST", f"/v1/reserve/{shown}", {"amounts": {"tokens": 1}, "key": "k"})
        assert held.json()["path"] == path


def test_an_account_may_be_called_as_an_operation_is(ask: Client) -> None:
    path = "org/reserve/v1/limits"
    ask("PUT", f"/v1/limits/{path}", {"limits": [{"axis": "calls", "cap": 1}]})
    assert path in ask("GET", "/v1/accounts").json()["accounts"]


def test_a_hold_id_may_have_every_character_of_a_key(ask: Client) -> None:
    key = "".join(map(chr, range(ord("!"), ord("~") + 1))).replace("#", "") + "#"
    reserve(ask, 5, key=key)
    found = ask("GET", "/v1/hold/org/a?" + str(httpx.QueryParams({"id": key})))
    assert found.json()["id"] == key


def test_a_hold_that_the_ledger_named_itself_can_be_settled(ask: Client) -> None:
    held = ask.ledger.reserve("org/a", {"tokens": 5})
    assert held.id[0] == "#"
    answer = ask("POST", "/v1/commit/org/a", {"id": held.id})
    assert answer.json()["state"] == "committed"


def test_the_service_says_that_it_lives_and_is_ready(ask: Client) -> None:
    for url in ("/healthz", "/readyz"):
        assert ask("GET", url).json() == {"status": "ok"}


def test_many_at_once_never_get_more_than_there_is(ask: Client) -> None:
    async def rush() -> list[httpx.Response]:
        body = {"amounts": {"tokens": 3}}
        asked = [ask.ask("POST", "/v1/reserve/org/a", body) for _ in range(60)]
        return await asyncio.gather(*asked)

    statuses = [answer.status_code for answer in asyncio.run(rush())]
    assert (statuses.count(200), statuses.count(429)) == (33, 27)


def test_an_async_ledger_is_awaited() -> None:
    class Awaited:
        def __init__(self, ledger: object) -> None:
            self._ledger = ledger

        async def reserve(self, *arguments: object) -> object:
            return self._ledger.reserve(*arguments)  # type: ignore[attr-defined]

        async def limits(self, path: str) -> object:
            return self._ledger.limits(path)  # type: ignore[attr-defined]

    ask = Client(Awaited(make_client(DAILY).ledger))
    assert reserve(ask, 5).status_code == 200
    assert reserve(ask, 500).status_code == 429
    assert ask("GET", "/readyz").status_code == 200
