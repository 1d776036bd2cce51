"""A server that is not fit for a ledger is refused in words that help and show no secret."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import RedisServer, empty_server

SECRET = "hunter2"  # noqa: S105 - of a server that lives as long as its test
LIMITS = [Limit("tokens", 1_000_000)]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as started:
        yield started


@pytest.fixture
def shared() -> RedisServer:
    return empty_server()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_holds_is_refused(own: RedisServer, policy: str) -> None:
    with closing(own.client()) as client:
        client.config_set("maxmemory-policy", policy)
    with (
        closing(RedisLedger(own.url, timeout=PATIENCE)) as ledger,
        pytest.raises(ValueError, match=policy),
    ):
        ledger.set_limits("org", LIMITS)
    with closing(RedisLedger(own.url, timeout=PATIENCE, check_eviction=False)) as ledger:
        ledger.set_limits("org", LIMITS)


def test_a_server_that_does_not_tell_its_policy_is_used(own: RedisServer) -> None:
    with closing(own.client()) as client:
        client.acl_setuser(
            "ledger", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"]
        )
    url = own.url.replace("unix://", "unix://ledger:x@")
    with closing(RedisLedger(url, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", LIMITS)
        assert ledger.accounts() == ["org"]


@pytest.mark.parametrize("key", ["live", "cells", "account:org", "hold:k"])
def test_a_key_of_another_program_is_named_and_left_as_it_is(shared: RedisServer, key: str) -> None:
    with (
        closing(RedisLedger(shared.url, timeout=PATIENCE)) as ledger,
        closing(shared.client()) as client,
    ):
        if key not in ("cells", "account:org"):  # which an account needs
            ledger.set_limits("org", LIMITS)
        client.lpush(f"microbudget:{{org}}:{key}", "theirs")
        before = {one: client.dump(one) for one in client.scan_iter("*{org}*")}
        asks: dict[str, Callable[[], Any]] = {
            "cells": lambda: ledger.set_limits("org", LIMITS),
            "account:org": lambda: ledger.set_limits("org", LIMITS),
        }
        ask = asks.get(key, lambda: ledger.reserve("org", {"tokens": 1}, key="k"))
        with pytest.raises(LedgerUnavailableError, match="begin with 'microbudget'") as foreign:
            ask()
        assert foreign.value.applied is False
        assert {one: client.dump(one) for one in client.scan_iter("*{org}*")} == before


def test_no_message_shows_the_password(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--requirepass", SECRET) as locked:
        texts = []
        right = locked.url.replace("unix://", f"unix://:{SECRET}@")
        wrong = locked.url.replace("unix://", f"unix://:{SECRET}{SECRET}@")
        with closing(RedisLedger(right, timeout=PATIENCE)) as ledger:
            ledger.set_limits("org", LIMITS)
            texts += [repr(ledger), repr(vars(ledger))]
            for url in (wrong, locked.url):
                with (
                    closing(RedisLedger(url, timeout=PATIENCE)) as refused,
                    pytest.raises(LedgerError) as denied,
                ):
                    refused.reserve("org", {"tokens": 1})
                texts += chained(denied.value)
            locked.kill()
            with pytest.raises(LedgerError) as down:
                ledger.reserve("org", {"tokens": 1})
            texts += chained(down.value)
    for url in (f"redis://:{SECRET}/x@host:1", f"nothing://:{SECRET}@host"):
        with pytest.raises(ValueError, match="URL such as") as unread:
            RedisLedger(url, timeout=PATIENCE)
        texts += chained(unread.value)
    assert texts
    assert not [text for text in texts if SECRET in text]


@pytest.mark.parametrize("kind", [RedisLedger, AsyncRedisLedger])
@pytest.mark.parametrize(
    "url",
    [
        f"redis://host/0?foo={SECRET}",
        f"redis://host/0?{SECRET}=1",
        f"unix:///run/redis?host={SECRET}",
        f"redis://host/0?socket_timeout={SECRET}",
        f"rediss://host/0?ssl_cert_reqs={SECRET}",
        f"redis://:12/{SECRET}@host/0",
        f"redis://user:12?{SECRET}@host/0",
        f"redis://user:12#{SECRET}@host/0",
        f"unix://:12/{SECRET}@/run/redis",
        f"redis://user:{SECRET}@host:{SECRET}",
        f"host:{SECRET}",
        f"redis+cluster://:{SECRET}/x@host:1",
        f"redis+cluster://host:1,other:{SECRET}",
        f"redis+cluster://:{SECRET}@host:1,",
        f"redis+cluster://:{SECRET}@host:1/1",
        f"redis+cluster://host?{SECRET}=1",
        f"unix+cluster://:{SECRET}@/run/redis",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_and_not_shown(kind: Any, url: str) -> None:
    with pytest.raises(ValueError, match="URL such as") as unread:
        kind(url)
    assert not [text for text in chained(unread.value) if SECRET in text]


@pytest.mark.parametrize("kind", [RedisLedger, AsyncRedisLedger])
@pytest.mark.parametrize(
    "url",
    [
        "redis://user:a@b%2Fc@host:1/0?client_name=a%40b&socket_timeout=3",
        "rediss://host?ssl_cert_reqs=none",
        "unix://user:x@/run/redis?db=1",
        "redis+cluster://user:a%2Fb@host:1,other,[::1]:2/0?socket_timeout=3",
        "rediss+cluster://host?ssl_cert_reqs=none",
    ],
)
def test_a_url_with_what_redis_knows_is_taken(kind: Any, url: str) -> None:
    assert kind(url)


def chained(error: BaseException | None) -> list[str]:
    texts = []
    while error is not None:
        texts += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return texts


def test_a_server_that_has_all_its_clients_has_applied_nothing(own: RedisServer) -> None:
    with closing(own.client()) as first:
        first.config_set("maxclients", 1)
        for options in ({}, {"check_eviction": False}):
            with closing(RedisLedger(own.url, timeout=PATIENCE, **options)) as ledger:  # type: ignore[arg-type]
                with pytest.raises(LedgerUnavailableError, match="cannot be reached") as raised:
                    ledger.reserve("org", {"tokens": 1})
                assert raised.value.applied is False
