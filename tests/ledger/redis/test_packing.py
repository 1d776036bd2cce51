"""Commands are packed as the library packs them."""

from typing import Any

import pytest
import redis.asyncio

from budget_cpython.ledger.redis.client import open_client

pytest.importorskip("hiredis")


@pytest.mark.parametrize("url", ["redis://localhost", "rediss://localhost", "unix:///tmp/x"])
@pytest.mark.parametrize(
    "command",
    [
        ("EVALSHA", "f" * 40, 2, b"{org}:live", "{org}:é", "", 0, -1, 10**15, 1.5),
        ("SCRIPT LOAD", "return 1"),
        ("CONFIG GET", "maxmemory-policy"),
        ("SSCAN", b"key", 0, "COUNT", 1000),
        ("PING",),
        ("SET", "key", "x" * 100_000),
    ],
)
def test_a_command_is_packed_as_the_library_packs_it(url: str, command: Any) -> None:
    pool = open_client(redis.asyncio, url, 1).connection_pool
    ours = pool.connection_class(**pool.connection_kwargs)
    theirs = redis.asyncio.Connection()
    assert b"".join(ours.pack_command(*command)) == b"".join(theirs.pack_command(*command))
    assert b"".join(ours.pack_commands([command] * 3)) == b"".join(
        theirs.pack_commands([command] * 3)
    )
