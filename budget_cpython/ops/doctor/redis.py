"""The checks of a ledger in Redis or Valkey."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import redis
from redis.exceptions import RedisError

from budget_cpython.finding import Finding, Result, fails, not_run, ok, warning
from budget_cpython.ledger.redis.client import open_client
from budget_cpython.ledger.redis.cluster import LateCluster
from budget_cpython.ops.doctor.engine import Check, answers, compare_clocks


def redis_checks(url: str, now: int, options: dict[str, Any], timeout_s: float) -> list[Check]:
    """Return the checks of the server of a URL."""

    def version() -> str:
        with closing(open_client(redis, url, timeout_s)) as client:
            said = client.info("server")
        if "valkey_version" in said:
            return f"Valkey {said['valkey_version']}"
        return f"Redis {said['redis_version']}"

    def of_each(check: Callable[[Any], Finding]) -> Finding:
        with closing(open_client(redis, url, timeout_s)) as client:
            return _of_each(client, check)

    open_client(redis, url, timeout_s).close()  # refuses a URL that cannot be meant
    fix = "start the server, or correct --ledger; docs/ledger.md has what it needs"
    return [
        ("engine", answers(url, {"timeout": timeout_s}, version, fix)),
        ("clock", lambda: of_each(lambda one: _check_clock(one, now))),
        ("durability", lambda: of_each(_check_durability)),
    ]


def _of_each(client: Any, check: Callable[[Any], Finding]) -> Finding:
    """Return the finding of a server; of a cluster that of the first node that is not as it should.

    Replicas are left out.
    """
    if not isinstance(client, LateCluster):
        return check(client)
    for node in client.get_primaries():
        finding = check(client.get_redis_connection(node))
        if finding.result is not Result.OK:
            return replace(finding, found=f"{node.name}: {finding.found}")
    return replace(finding, found=f"{finding.found}, at {len(client.get_primaries())} nodes")


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
