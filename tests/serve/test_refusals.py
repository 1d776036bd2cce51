"""A request that is not exactly right is refused, with a text that says what is wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_core.ledger.errors import LedgerFullError, LedgerUnavailableError
from budget_cpython.web import bearer
from budget_cpython.web.keys import KeyFile
from tests.serve.support import Client, Failing, make_client

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def ask() -> Client:
    return make_client(("org", "tokens", 100, "day"))


def send(ask: Client, data: bytes | str, headers: dict[str, str] = JSON) -> tuple[int, str]:
    """Return the status and text of the answer to a body."""
    content = data.encode() if isinstance(data, str) else data
    answer = ask("POST", "/v1/reserve/org", content=content, headers=headers)
    assert ask.ledger.balance("org")[0].held == 0
    return answer.status_code, answer.json()["message"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"amounts": {"tokens": 1}', "not JSON"),
        ('{"amounts": {"tokens": 1}} {}', "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('"amounts"', "must be a JSON object"),
        ('{"amounts": {"tokens": 1, "tokens": 2}}', "twice"),
        ('{"amounts": {"tokens": 1}, "amounts": {}}', "twice"),
        ("[" * 16_000, "nested too deeply"),
        (b'{"amounts": {"\xff": 1}}', "not JSON"),
        ("\ufeff{}", "not JSON"),
    ],
)
def test_only_a_json_object_is_accepted(ask: Client, data: bytes | str, says: str) -> None:
    status, message = send(ask, data)
    assert status == 400
    assert says in message


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{}", "'amounts' is missing"),
        ('{"amounts": {"tokens": NaN}}', "not nan"),
        ('{"amounts": {"tokens": 1}, "ttl": Infinity}', "ttl must be"),
        ('{"amounts": {"tokens": ' + "9" * 4000 + "}}", "amount of tokens must be"),
        (
            '{"amounts": {}, "amount": {}}',
            "unknown field 'amount': the known ones are amounts, key",
        ),
        ('{"amounts": []}', "amounts must be a dict"),
        ('{"amounts": {"tokens": -1}}', "amount of tokens must be a whole number from 0"),
        ('{"amounts": {"tokens": 1.5}}', "not 1.5"),
        ('{"amounts": {"tokens": 1e16}}', "not 1e+16"),
        ('{"amounts": {"tokens": 1e999}}', "not inf"),
        ('{"amounts": {"tokens": "1"}}', "not '1'"),
        ('{"amounts": {"tokens": true}}', "not True"),
        ('{"amounts": {"tokens": 9007199254740992}}', "2**53 - 1"),
        ('{"amounts": {"to kens": 1}}', "axis must be up to 64"),
        ('{"amounts": {"tokens": 1}, "key": 5}', "key must be"),
        ('{"amounts": {"tokens": 1}, "key": "#1"}', "key must be"),
        ('{"amounts": {"tokens": 1}, "key": "a b"}', "key must be"),
        ('{"amounts": {"tokens": 1}, "key": ""}', "key must be"),
        ('{"amounts": {"tokens": 1}, "ttl": 0}', "ttl must be seconds above 0"),
        ('{"amounts": {"tokens": 1}, "ttl": 86401}', "ttl must be"),
        ('{"amounts": {"tokens": 1}, "ttl": "5"}', "ttl must be"),
        ('{"amounts": {"tokens": 1}, "ttl": true}', "ttl must be"),
    ],
)
def test_a_bad_value_is_named_with_what_it_must_be(ask: Client, data: str, says: str) -> None:
    status, message = send(ask, data)
    assert status == 422
    assert says in message


@pytest.mark.parametrize(
    "row",
    [
        "tokens",
        {},
        {"axis": "tokens"},
        {"axis": "tokens", "cap": 1, "hours": 5},
        {"axis": "tokens", "cap": -1},
        {"axis": "tokens", "cap": 1.5},
        {"axis": "", "cap": 1},
        {"axis": 5, "cap": 1},
        {"axis": "tokens", "cap": 1, "window": None},
        {"axis": "tokens", "cap": 1, "window": "fortnight"},
    ],
)
def test_a_bad_limit_is_refused(ask: Client, row: Any) -> None:
    before = ask("GET", "/v1/limits/org").json()
    for rows in ([row], [row, row], row):
        assert ask("PUT", "/v1/limits/org", {"limits": rows}).status_code == 422
    assert ask("GET", "/v1/limits/org").json() == before


@pytest.mark.parametrize("id", [5, None, "", "#", "a b", "é", "k" * 201, ["k"]])
def test_a_malformed_id_is_refused(ask: Client, id: Any) -> None:
    assert ask("POST", "/v1/commit/org", {"id": id}).status_code == 422


def test_a_line_end_in_a_path_is_refused(ask: Client) -> None:
    for url in ("/v1/balance/org%0a", "/v1/balance/org%0A%0A", "/v1/accounts%0a"):
        assert ask("GET", url).status_code in (404, 422), url


@pytest.mark.parametrize("path", ["a//b", "a/", "/a", "..", "a/../b%2F..", "é", "a%00", "x" * 65])
def test_a_malformed_path_is_refused(ask: Client, path: str) -> None:
    request = httpx.Request("GET", f"http://localhost/v1/balance/{path}")
    answer = ask("GET", str(request.url))
    assert answer.status_code in (404, 422), answer.text


def test_a_parameter_is_given_once_and_is_known(ask: Client) -> None:
    for query in ("", "?id=", "?id=a&id=b", "?id=a&x=b", "?ID=a"):
        assert ask("GET", f"/v1/hold/org{query}").status_code == 422


def test_a_body_of_another_type_is_refused(ask: Client) -> None:
    """A page in a browser can send these types without a preflight request, but not JSON."""
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
        headers = {"Content-Type": kind} if kind else {}
        assert send(ask, '{"amounts": {"tokens": 1}}', headers)[0] == 415


def test_a_body_that_is_too_large_is_refused_before_it_is_read(ask: Client) -> None:
    sent = 0

    async def flood() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1 << 20
            yield b" " * (1 << 20)

    def flooded(method: str, url: str, **headers: str) -> httpx.Response:
        return asyncio.run(ask.ask(method, url, content=flood(), headers={**JSON, **headers}))

    for method, url in (("POST", "/v1/reserve/org"), ("POST", "/v1/what"), ("GET", "/v1/accounts")):
        sent = 0
        answer = flooded(method, url)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close"), url
        assert sent == 1 << 20
        sent = 0
        for announced in (10**11, "9" * 5000):
            answer = flooded(method, url, **{"Content-Length": str(announced)})
            assert (answer.status_code, answer.headers["connection"]) == (413, "close"), url
        assert sent == 0


@pytest.mark.parametrize("key", [None, "unknown"])
def test_the_size_is_limited_before_a_key_is_looked_at(tmp_path: Path, key: str | None) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.add("a", "*", ["read"])
    answer = make_client(keys=keys)("POST", "/v1/reserve/org", "x" * 20_000, key)
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/v1/reserve/org", "/v1/batch"])
def test_a_length_that_is_stated_twice_or_badly_is_refused(ask: Client, path: str) -> None:
    twice = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    none = {**twice, "Content-Length": "0"}
    for headers in (twice, none, {"Content-Length": "-1"}, {"Content-Length": "1, 1"}):
        answer = ask("POST", path, content=b"{}", headers={**JSON, **headers})
        assert (answer.status_code, answer.headers["connection"]) == (400, "close"), headers


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Origin"])
@pytest.mark.parametrize("second", ["a", "b"])
def test_a_header_that_is_given_twice_is_refused(ask: Client, name: str, second: str) -> None:
    headers = [(name, "a"), (name, second)]
    transport = httpx.ASGITransport(ask.app)

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/reserve/org", content=b"{}", headers=headers)

    found = asyncio.run(answer())
    assert (found.status_code, found.headers["connection"]) == (400, "close")
    assert found.json()["message"] == f"the header {name} is given twice"


@pytest.mark.parametrize("path", ["/v1/reserve/org", "/v1/batch"])
def test_a_client_that_leaves_in_the_middle_of_a_body_changes_nothing(
    ask: Client, path: str
) -> None:
    sent: list[Any] = []
    messages = [
        {"type": "http.request", "body": b'{"amounts": {"tokens": 1}}', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    asyncio.run(ask.app({**scope, "query_string": b"", "root_path": ""}, receive, send))
    assert sent == []
    assert ask.ledger.balance("org")[0].held == 0


def test_unknown_urls_and_methods_are_answered_in_json(ask: Client) -> None:
    for method, url, status in (
        ("GET", "/v1", 404),
        ("GET", "/v1/reserve", 404),
        ("GET", "/v1/balance/", 422),
        ("POST", "/v2/reserve/org", 404),
        ("GET", "/v1/reserve/org", 405),
        ("DELETE", "/v1/limits/org", 405),
    ):
        answer = ask(method, url)
        assert answer.status_code == status, url
        assert set(answer.json()) == {"error", "message"}


def test_without_keys_only_requests_for_this_machine_are_served(ask: Client) -> None:
    for host in (
        "localhost",
        "127.0.0.1:8321",
        "[::1]:8321",
        "[::1]",
        "LOCALHOST:1",
        "127.0.0.2:9",
    ):
        assert ask("GET", "/v1/accounts", headers={"Host": host}).status_code == 200, host
    others = ["evil.example", "evil.example:8321", "localhost.evil.example", "", ":80", "[::2]:80"]
    others += ["127.0.0.1:evil", "localhost:", "127.0.0.1:123456", "[127.0.0.1", "::1"]
    for host in others:
        assert ask("GET", "/v1/accounts", headers={"Host": host}).status_code == 403, host


def test_without_keys_a_page_of_another_site_is_not_served(ask: Client) -> None:
    """A browser sends requests without JSON for any page, and names its site."""
    local = ["http://localhost", "http://127.0.0.1:3000", "https://[::1]:1"]
    for origin in local:
        assert ask("POST", "/v1/expire", headers={"Origin": origin}).status_code == 200, origin
    for site in ("same-origin", "same-site", "none"):
        assert ask("POST", "/v1/expire", headers={"Sec-Fetch-Site": site}).status_code == 200
    others = ["https://evil.example", "null", "", "localhost", "file://", "http://localhost.evil.x"]
    for headers in ({"Sec-Fetch-Site": "cross-site"}, *({"Origin": one} for one in others)):
        for method, url in (("POST", "/v1/expire"), ("GET", "/v1/accounts")):
            assert ask(method, url, headers=headers).status_code == 403, headers


def test_with_keys_a_page_of_any_site_may_ask(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    token = keys.add("a", "*", ["read"])
    headers = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    answer = make_client(keys=keys)("GET", "/v1/accounts", key=token, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("applied", [False, None])
def test_an_engine_that_fails_is_unavailable(applied: bool | None) -> None:
    ask = Client(Failing(LedgerUnavailableError("it is down", applied=applied)))
    answer = ask("POST", "/v1/reserve/org", {"amounts": {}})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    said = {"error": "ledger_unavailable", "applied": applied}
    assert answer.json() == {**said, "message": "ledger unavailable: the service's log says more"}
    assert ask("GET", "/readyz").status_code == 503
    assert ask("GET", "/healthz").status_code == 200


def test_a_full_engine_is_reported() -> None:
    ask = Client(Failing(LedgerFullError("the disk is full")))
    answer = ask("POST", "/v1/reserve/org", {"amounts": {}})
    assert (answer.status_code, answer.json()["error"]) == (507, "ledger_full")


def test_an_unexpected_error_shows_nothing_of_the_inside() -> None:
    ask = Client(Failing(RuntimeError("password=hunter2")))
    transport = httpx.ASGITransport(ask.app, raise_app_exceptions=False)

    async def failed() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/reserve/org", json={"amounts": {}})

    answer = asyncio.run(failed())
    assert (answer.status_code, answer.json()["error"]) == (500, "internal")
    assert "hunter2" not in answer.text


def test_an_answer_to_a_wrong_key_waits_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "WRONG_KEY_S", 10**6)
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("reader", "org", ["read"])
    ask = make_client(("org", "tokens", 100, "day"), keys=keys)

    async def both() -> int:
        wrong = asyncio.create_task(ask.ask("GET", "/v1/balance/org", key="mb.reader.wrong"))
        await asyncio.sleep(0)
        right = await ask.ask("GET", "/v1/balance/org", key=key)
        assert not wrong.done()
        wrong.cancel()
        return right.status_code

    assert asyncio.run(both()) == 200
