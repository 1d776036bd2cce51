"""The checks of a ledger in Redis or Valkey."""

from functools import cache
from typing import Any

import redis
from redis.exceptions import RedisError

from budget_cpython.finding import Finding, fails, not_run, ok, warning
from budget_cpython.ledger.redis.client import open_client
from budget_cpython.ops.doctor.engine import Check, answers, compare_clocks


def redis_checks(url: str, now: int, timeout_s: float) -> list[Check]:
    """Return the checks of the server of a URL."""
    client = open_client(redis, url, timeout_s)

    @cache
    def version() -> str:
        said = client.info("server")
        if "valkey_version" in said:
            return f"Valkey {said['valkey_version']}"
        return f"Redis {said['redis_version']}"

    fix = "start the server, or correct --ledger; docs/ledger.md has what it needs"
    return [
        ("engine", answers(url, {"timeout": timeout_s}, version, fix)),
        ("clock", lambda: _check_clock(client, now)),
        ("durability", lambda: _check_durability(client)),
    ]


def _check_clock(client: Any, now: int) -> Finding:
    seconds, _ = client.time()
    return compare_clocks(seconds, now, "the server's")


def _check_durability(client: Any) -> Finding:
    try:
        said = {**client.config_get("append*"), **client.config_get("maxmemory*")}
    except RedisError as error:
        return not_run(f"the server does not show its settings: {error}")
    policy = said.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        fix = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"
        return fails(f"maxmemory-policy is {policy}: the server may evict counts", fix)
    if said.get("appendonly") != "yes":
        fix = "CONFIG SET appendonly yes, and the same in redis.conf"
        return fails("appendonly is no: a crash loses what was counted since the snapshot", fix)
    sync = said.get("appendfsync", "")
    if sync == "no":
        fix = "CONFIG SET appendfsync everysec, or always"
        return warning("appendfsync is no: the system decides what a crash loses", fix)
    lost = "nothing" if sync == "always" else "at most a second"
    return ok(f"appendonly, appendfsync {sync}: a crash loses {lost}; nothing is evicted")
