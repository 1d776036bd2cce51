"""Which upstream a request is for, and where it goes there."""

from pathlib import Path
from typing import Any

import pytest

from budget_cpython.proxy import Proxy, read_upstreams
from tests.proxy.support import Behind, Request, get, post


@pytest.mark.parametrize(
    ("base", "path", "target"),
    [
        ("https://host", "/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/", "/v1/messages?beta=true", "https://host/v1/messages?beta=true"),
        ("https://host/v1", "/v1/responses", "https://host/v1/responses"),
        ("https://host/api/v1/", "/v1/models", "https://host/api/v1/models"),
        ("https://host/paas/v4", "/v1/chat/completions", "https://host/paas/v4/chat/completions"),
        ("https://host/gateway", "/v1/messages", "https://host/gateway/v1/messages"),
        (
            "https://host",
            "/v1beta/models/m:generateContent",
            "https://host/v1beta/models/m:generateContent",
        ),
    ],
)
def test_a_base_url_is_as_an_sdk_takes_it(base: str, path: str, target: str) -> None:
    (upstream,) = read_upstreams([f"it={base}"], [])
    before, _, query = path.partition("?")
    assert str(upstream.target(before.encode(), query.encode())) == target


def name_of(http: Request) -> None:
    """Answer with where the request arrived."""
    http.reply({"port": http.connection.getsockname()[1], "path": http.path})


@pytest.mark.parametrize(
    ("path", "headers", "name", "asked"),
    [
        ("/v1/chat/completions", {}, "openai", "/v1/chat/completions"),
        ("/v1/messages", {}, "anthropic", "/v1/messages"),
        ("/v1/models", {"anthropic-version": "1"}, "anthropic", "/v1/models"),
        ("/v1/models", {}, "openai", "/v1/models"),
        ("/local/v1/messages", {}, "local", "/v1/messages"),
        ("/anthropic/v1/chat/completions", {}, "anthropic", "/v1/chat/completions"),
    ],
)
def test_of_several_upstreams_a_name_or_the_format_chooses(
    path: str, headers: dict[str, str], name: str, asked: str
) -> None:
    with Behind(name_of) as one, Behind(name_of) as two, Behind(name_of) as three:
        urls = {"openai": one.url, "anthropic": two.url, "local": three.url}
        with Proxy(urls, []).running() as url:
            said = get(url + path, headers=headers).json()
        assert (f"http://127.0.0.1:{said['port']}", said["path"]) == (urls[name], asked)


def test_a_single_upstream_gets_everything() -> None:
    with Behind(name_of) as behind, Proxy({"local": behind.url}, []).running() as url:
        for path in ("/v1/messages", "/v1/models", "/local/v1/models"):
            assert get(url + path).status_code == 200


def test_a_format_that_no_upstream_has_is_an_error_that_names_the_prefixes() -> None:
    with Proxy({"a": "http://127.0.0.1:9", "b": "http://127.0.0.1:9"}, []).running() as url:
        answer = post(f"{url}/v1/messages", json={})
        assert answer.status_code == 404
        assert "/a/..., /b/..." in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("rows", "keys", "says"),
    [
        (["openai"], [], "NAME=URL"),
        (["openai=ftp://host"], [], "https://HOST/PATH"),
        (["openai=https://host/?a=b"], [], "without"),
        (["openai=https://me:secret@host"], [], "password"),
        (["v1=https://host"], [], "unlike v1"),
        (["a b=https://host"], [], "letters"),
        (["a=https://host", "a=https://other"], [], "two upstreams"),
        (["a=https://host"], ["b=env:HOME"], "no upstream"),
        (["a=https://host"], ["a=secret"], "@FILE"),
        (["a=https://host"], ["secret"], "@FILE"),
        (["a=https://host"], ["a=env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
    ],
)
def test_a_malformed_upstream_is_named_and_no_secret_shown(
    rows: list[str], keys: list[str], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        read_upstreams(rows, keys)
    assert "secret" not in str(raised.value)


def test_keys_come_from_files_and_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("one\n")
    monkeypatch.setenv("A_KEY", "two")
    keys = [f"a=@{tmp_path}/key", "b=env:A_KEY"]
    found: Any = read_upstreams(["a=http://a", "b=http://b", "c=http://c"], keys)
    assert [upstream.key for upstream in found] == ["one", "two", None]
