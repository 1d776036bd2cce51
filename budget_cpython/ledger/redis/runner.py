"""Send scripts and commands to a Redis server, one at a time or many at once."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Any, NoReturn

import redis.asyncio
from redis.exceptions import NoScriptError

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.ledger.batching import BatchQueue
from budget_cpython.ledger.redis import replies
from budget_cpython.ledger.redis.cluster import CLUSTERS, ClusterScript
from budget_cpython.ledger.redis.error_mapping import ERRORS, is_read_only, ledger_error
from budget_cpython.ledger.redis.scripts import script

PAGE = 1000  # members of a set, fields of a hash or events that are read at a time
AT_ONCE = 200  # commands that are sent together
_ScriptCall = tuple[Any, Sequence[bytes], Sequence[Any]]  # with its keys and arguments


class Runner:
    """A client of `redis` or of `redis.asyncio`, and the scripts that it sends.

    What tasks run while other scripts of theirs are under way goes in one pipeline, but for a
    cluster, whose pipelines take no scripts. A client that is not `owned` is left open, and may
    send a script again by itself. Raises `LedgerUnavailableError` and `LedgerFullError`.
    """

    def __init__(self, client: Any, prefix: str, owned: bool) -> None:
        self.client = client
        self._prefix = prefix
        self._owned = owned
        self.is_cluster = isinstance(client, CLUSTERS)
        self._scripts: dict[str, Any] = {}
        self._queue: BatchQueue[_ScriptCall, Any] | None = None
        if isinstance(client, redis.asyncio.Redis):
            self._queue = BatchQueue(self._run_together, most=AT_ONCE)

    async def run(self, name: str, keys: Sequence[bytes], args: Sequence[Any]) -> Any:
        """Run a script."""
        registered = self._scripts.get(name) or self._register(name)
        try:
            if self._queue is not None:
                reply = await self._queue.ask((registered, keys, args))
            else:
                reply = registered(keys, args)
                if hasattr(reply, "__await__"):  # `maybe_await` would cost each call a coroutine
                    reply = await reply
        except ERRORS as error:
            await self.fail(error)
        return replies.text(reply)

    async def _run_together(self, calls: list[_ScriptCall]) -> list[Any]:
        """Run scripts in one pipeline; return their replies, and errors in the place of some."""
        if len(calls) == 1:
            registered, keys, args = calls[0]
            return [await registered(keys, args)]
        together = self.client.pipeline(transaction=False)
        for registered, keys, args in calls:
            together.evalsha(registered.sha, len(keys), *keys, *args)
        found: list[Any] = await together.execute(raise_on_error=False)
        unknown = [at for at, reply in enumerate(found) if isinstance(reply, NoScriptError)]
        if unknown:  # by a server that began again; the others have run
            for at in unknown:
                registered, keys, args = calls[at]
                together.eval(registered.script, len(keys), *keys, *args)
            replies_now = await together.execute(raise_on_error=False)
            for at, reply in zip(unknown, replies_now, strict=True):
                found[at] = reply
        return found

    async def run_all(
        self, name: str, calls: Iterable[tuple[Sequence[bytes], Sequence[Any]]]
    ) -> list[Any]:
        """Run a script with each of these keys and arguments; others are served in between."""
        registered = self._scripts.get(name) or self._register(name)
        return await self.send_all(partial(registered, keys, args) for keys, args in calls)

    async def send(self, command: Callable[[Any], Any]) -> Any:
        """Send a command, such as a `methodcaller` of a client's; return its reply."""
        try:
            return replies.text(await maybe_await(command(self.client)))
        except ERRORS as error:
            await self.fail(error)

    async def send_all(self, commands: Iterable[Callable[[Any], Any]]) -> list[Any]:
        """Send commands, many together where a server has all keys; return their replies."""
        if self.is_cluster:  # whose pipelines take no scripts
            return [await self.send(command) for command in commands]
        found: list[Any] = []
        rest = iter(commands)
        while some := list(islice(rest, AT_ONCE)):
            try:
                together = self.client.pipeline(transaction=False)
                for command in some:
                    await maybe_await(command(together))
                found += await maybe_await(together.execute())
            except ERRORS as error:
                await self.fail(error)
        return list(replies.text(found))

    async def scan(self, command: str, key: bytes) -> list[str]:
        """Return the members of a set, or the fields of a hash."""
        return list((await self.scan_all(command, [key]))[key])

    async def scan_all(self, command: str, keys: Iterable[bytes]) -> dict[bytes, dict[str, Any]]:
        """Return what is in each set or hash, read a page at a time by `command`."""
        found: dict[bytes, dict[str, Any]] = {key: {} for key in keys}
        cursors = dict.fromkeys(found, 0)
        while cursors:
            pages = await self.send_all(
                methodcaller(command, key, at, count=PAGE) for key, at in cursors.items()
            )
            for key, (cursor, members) in zip(list(cursors), pages, strict=True):
                found[key].update(dict.fromkeys(members) if command == "sscan" else members)
                cursors[key] = int(cursor)
            cursors = {key: at for key, at in cursors.items() if at}
        return found

    async def node_of(self, key: bytes) -> Any:
        """Return the node of a cluster that has a key; `None` for a single server."""
        if not self.is_cluster:
            return None
        try:
            if isinstance(self.client, redis.asyncio.RedisCluster):
                await self.client.initialize()  # once
            return self.client.get_node_from_key(key)
        except ERRORS as error:
            await self.fail(error, False)

    async def fail(self, error: Exception, sent: bool = True) -> NoReturn:
        """Raise the ledger's error for one of the library's."""
        pool = getattr(self.client, "connection_pool", None)
        if pool is not None and is_read_only(error):  # the address may be another server's by now
            await maybe_await(pool.disconnect(inuse_connections=False))
        found = ledger_error(error, self._prefix, retries=not self._owned)
        if not sent and isinstance(found, LedgerUnavailableError):
            found.applied = False
        raise found from error

    async def close(self) -> None:
        """Close the client, if it is owned."""
        if self._owned:
            close = getattr(self.client, "aclose", None) or self.client.close
            await maybe_await(close())

    def _register(self, name: str) -> Any:
        text = script(name)
        made = ClusterScript(self.client, text) if self.is_cluster else None
        self._scripts[name] = made or self.client.register_script(text)
        return self._scripts[name]
