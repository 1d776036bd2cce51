"""What passes the proxy untouched, what is left out, and what is counted."""

import re
from typing import Any

import pytest

from budget_cpython.proxy import Proxy, Upstream
from scripted_model import ScriptedEndpoint
from tests.proxy.support import ASKED, CHAT, Behind, Request, ask_raw, budgeted, get, post, spent


def echo(http: Request) -> None:
    """Answer with what was asked."""
    said = {"path": http.path, "headers": dict(http.headers), "body": http.body.decode("latin-1")}
    http.reply(said, 207, X_Answer="yes", Set_Cookie="a=b", Keep_Alive="timeout=5")


def test_other_requests_pass_with_their_bytes_and_headers() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        body = b'\x00{"not": "json'
        answer = post(f"{url}/v1/images?a=%2F&b", content=body, headers={"X-Asked": "yes"})
        said = answer.json()
        assert answer.status_code == 207
        assert (said["path"], said["body"]) == ("/v1/images?a=%2F&b", body.decode("latin-1"))
        assert said["headers"]["x-asked"] == "yes"
        assert said["headers"]["Host"] == behind.url.removeprefix("http://")
        assert answer.headers["x-answer"] == "yes"
        assert answer.headers["set-cookie"] == "a=b"


def test_headers_of_one_connection_do_not_pass() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        head = b"GET /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close, X-Mine\r\n"
        said = ask_raw(url, head + b"X-Mine: 1\r\nTE: trailers\r\nProxy-Authorization: x\r\n\r\n")
        assert b"keep-alive" not in said.lower()
        (request,) = behind.requests
        for name in ("X-Mine", "TE", "Proxy-Authorization"):
            assert request.headers[name] is None


def test_cookies_of_one_answer_do_not_go_with_the_next_request() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        for _ in range(2):
            get(f"{url}/v1/files")
        assert [request.headers["Cookie"] for request in behind.requests] == [None, None]


def test_a_redirection_is_passed_on_not_followed() -> None:
    def redirect(http: Request) -> None:
        http.reply({}, 307, Location="/elsewhere")

    with Behind(redirect) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        answer = post(url + CHAT, json=ASKED)
        assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")
        assert len(behind.requests) == 1


def test_an_other_request_counts_as_one_call_and_is_marked_as_unknown() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "2 calls") as (url, account, proxy):
        for _ in range(2):
            assert post(f"{url}/v1/images", json={}).status_code == 207
        refused = post(f"{url}/v1/images", json={})
        assert (refused.status_code, refused.headers["x-should-retry"]) == (402, "false")
        assert refused.json()["error"]["code"] == "insufficient_quota"
        assert len(behind.requests) == 2
        assert spent(account, "calls") == (2, 0)
        (row,) = proxy.usage.rows().values()
        assert (row.calls, row.estimated, row.unpriced) == (2, 2, 2)


def test_an_other_request_that_breaks_off_counts_at_once() -> None:
    def breaks(http: Request) -> None:
        http.close_connection = True

    with Behind(breaks) as behind, budgeted(behind.url, "2 calls") as (url, account, proxy):
        assert post(f"{url}/v1/images", json={}).status_code == 502
        assert spent(account, "calls") == (1, 0)
        assert proxy.usage.total().calls == 1


def test_an_other_request_that_reaches_no_server_costs_nothing() -> None:
    with Behind(echo) as behind:
        gone = behind.url
    with budgeted(gone, "2 calls") as (url, account, proxy):
        answer = post(f"{url}/v1/images", json={})
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_unreachable"
        assert spent(account, "calls") == (0, 0)
        assert proxy.usage.rows() == {}


def test_models_are_listed_and_tokens_counted_for_nothing() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "0 calls", strict=True) as (url, account, _):
        assert get(f"{url}/v1/models").status_code == 207
        assert get(f"{url}/v1/models/gpt-5").status_code == 207
        assert post(f"{url}/v1/messages/count_tokens", json={}).status_code == 207
        assert spent(account, "calls") == (0, 0)


@pytest.mark.parametrize(
    ("headers", "shape"),
    [
        ({}, {"error": {"type": "invalid_request_error", "code": "forbidden"}}),
        ({"anthropic-version": "1"}, {"type": "error", "error": {"type": "permission_error"}}),
        ({"x-goog-api-key": "k"}, {"error": {"code": 403, "status": "PERMISSION_DENIED"}}),
    ],
)
def test_strict_refuses_what_is_no_known_call_in_the_vendors_shape(
    headers: dict[str, str], shape: Any
) -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls", strict=True) as (url, account, _):
        answer = post(f"{url}/v1/images", json={}, headers=headers)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (403, "false")
        said = answer.json()
        assert {**said, "error": {**said["error"], **shape["error"]}} == said
        assert said.get("type") == shape.get("type")
        assert behind.requests == []
        assert spent(account, "calls") == (0, 0)


@pytest.mark.parametrize(
    "path",
    [
        "/v1//chat/completions",
        "/v1/chat/completions#x",
        "/v1/chat/./completions",
        "/v1/x/..%2fchat/completions",
        "/v1/chat/%63ompletions",
        "/v1/chat\\completions",
        "/v1/chat/%2563ompletions/%zz",
        "/v1/Chat/Completions",
    ],
)
def test_a_path_that_could_be_read_in_two_ways_is_refused(path: str) -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls") as (url, account, _):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}"
        assert ask_raw(url, head.encode()).startswith(b"HTTP/1.1 400")
        assert behind.requests == []
        assert spent(account, "calls") == (0, 0)


def test_a_large_body_is_refused_by_the_clients_one_attempt() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls", max_body=1000) as (url, _, _):
        answer = post(f"{url}/v1/files", content=b"x" * 100_000)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (413, "false")
        assert behind.requests == []


@pytest.mark.parametrize(
    ("vendor", "header"),
    [
        ({}, ("Authorization", "Bearer secret")),
        ({"anthropic-version": "1"}, ("X-Api-Key", "secret")),
        ({"x-goog-api-key": "mine"}, ("X-Goog-Api-Key", "secret")),
    ],
)
def test_the_upstreams_key_takes_the_place_of_the_clients(
    vendor: dict[str, str], header: tuple[str, str]
) -> None:
    with Behind(echo) as behind:
        upstream = Upstream("it", behind.url, "secret")
        assert "secret" not in repr(upstream)
        with Proxy({"it": upstream}, []).running() as url:
            sent = {"Authorization": "Bearer mine", "X-Api-Key": "mine", **vendor}
            get(f"{url}/v1/models", headers=sent)
        (request,) = behind.requests
        values = [
            value for name, value in request.headers.items() if re.search("mine|secret", value)
        ]
        assert values == [header[1]]
        assert request.headers[header[0]] == header[1]


def test_without_a_key_of_the_upstream_the_clients_own_passes() -> None:
    with Behind(echo) as behind, Proxy({"it": behind.url}, []).running() as url:
        get(f"{url}/v1/models", headers={"Authorization": "Bearer mine"})
        assert behind.requests[0].headers["Authorization"] == "Bearer mine"


def test_a_page_of_another_site_cannot_spend_the_budget() -> None:
    with Behind(echo) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            assert get(f"{url}/v1/models", headers=headers).status_code == 403
        assert behind.requests == []


def test_it_tells_how_it_is() -> None:
    with ScriptedEndpoint() as endpoint, budgeted(endpoint.base_url, "1 calls") as (url, _, _):
        for name in ("healthz", "readyz"):
            answer = get(f"{url}/{name}")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
