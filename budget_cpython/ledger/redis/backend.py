"""Do a ledger's operations on a Redis server, by scripts."""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.redis import replies, script_args
from budget_cpython.ledger.redis.error_mapping import ERRORS, is_forbidden
from budget_cpython.ledger.redis.journal import RedisJournal
from budget_cpython.ledger.redis.keys import Keys
from budget_cpython.ledger.redis.runner import Runner
from budget_cpython.ledger.redis.script_args import Arguments

BATCH = 100  # holds that one script expires


class RedisBackend:
    """A backend over a client of `redis` or of `redis.asyncio`, as `remote.Backend` says.

    A script that finds something else to do first changes nothing and says so: a window is `over`,
    an id is `known`, holds are `due`. Another script does that, and the first runs again. So what
    is rare does not slow down each call.

    A client that is not `owned` is left open, and may send a script again by itself.
    """

    def __init__(self, client: Any, keys: Keys, *, owned: bool, check_eviction: bool) -> None:
        self._runner = Runner(client, keys.prefix, owned)
        self.is_spread = self._runner.is_cluster
        self._keys = keys
        self._check_eviction = check_eviction
        self._asked: set[str] = set()  # nodes that evict nothing
        self._journal = RedisJournal(self._runner, keys, self._expire_root)

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation."""
        if self._check_eviction:
            await self._refuse_eviction(arguments["path"])
        if operation == "accounts":
            return "ok", await self._runner.scan("sscan", self._keys.accounts)
        if operation == "expire":
            return "ok", await self._expire(arguments)
        if operation == "set_limits":
            return await self._set_limits(arguments)
        if OPERATIONS[operation].for_operators:
            reply: Sequence[Any] = await getattr(self._journal, operation)(arguments)
            return reply
        return await self._run_on_path(operation, arguments)

    async def close(self) -> None:
        """Close the client, if it is owned."""
        await self._runner.close()

    async def _run_on_path(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        keys = self._keys.of_path(arguments["path"])
        for name in ("former", "id"):
            if name in arguments:
                keys = (*keys, self._keys.hold(arguments["path"], arguments[name]))
        args = script_args.of_operation(operation, arguments)
        while True:
            reply = await self._runner.run(operation, keys, args)
            if isinstance(reply, int):
                return "ok", replies.fresh(arguments, reply)
            if reply[0] == "over":
                bounds = script_args.bounds(arguments)
                moved = await self._run_on_account("move", arguments, bounds)
                if moved[0] == "roll":
                    return moved
            elif reply[0] == "known":
                reply = await self._runner.run("again", keys, args)
                if reply[0] != "gone":
                    return replies.read(operation, arguments, reply)
            elif reply[0] == "due":
                await self._expire_root(arguments)
            else:
                return replies.read(operation, arguments, reply)

    async def _set_limits(self, arguments: Arguments) -> Sequence[Any]:
        """List an account before it exists, and unlist it after it is gone.

        So the list of accounts, which is in another slot of a cluster, never lacks one.
        """
        limits, most = arguments["limits"], arguments["max_accounts"]
        own = script_args.limits(arguments, listed=False)
        reply = await self._run_on_account("set_limits", arguments, *own)
        if reply[0] == "new":
            if (await self._run_on_list("register", arguments, most))[0] == "full":
                return "full", f"the ledger has its {most} accounts: raise max_accounts"
            own = script_args.limits(arguments, listed=True)
            reply = await self._run_on_account("set_limits", arguments, *own)
        if reply[0] == "ok":
            await self._list_account(arguments, bool(limits))
        return replies.read("set_limits", arguments, reply)

    async def _list_account(self, arguments: Arguments, exists: bool) -> None:
        """List or unlist an account; look afterwards, so that the last of several is right."""
        while True:
            await self._run_on_list("register" if exists else "unregister", arguments, MOST)
            _, limits = await self._run_on_account("limits", arguments)
            if bool(limits) == exists:
                return
            exists = not exists

    async def _expire(self, arguments: Arguments) -> int:
        """Expire holds, root by root; forget roots without accounts and holds.

        A node of a cluster that fails is left out, and its error raised at the end.
        """
        count = 0
        failed: dict[str, LedgerUnavailableError] = {}
        for root in await self._runner.scan("hscan", self._keys.roots):
            node = await self._runner.node_of(self._keys.account(root))
            name = node.name if node else ""
            if name in failed:
                continue
            of_root = {**arguments, "path": root}
            try:
                expired, live = await self._expire_root(of_root)
            except LedgerUnavailableError as error:
                failed[name] = error
                continue
            count += expired
            if not live:
                await self._run_on_list("forget", of_root)
        for failure in failed.values():
            raise failure
        return count

    async def _expire_root(self, arguments: Arguments) -> tuple[int, int]:
        """Expire holds below the path's root; return how many expired, and how many live."""
        count = 0
        while True:
            word, found = await self._run_on_account("due", arguments, BATCH)
            if word == "ok":
                return count, found
            keys: list[bytes] = list(self._keys.of_path(arguments["path"])[:2])
            args = script_args.common(arguments)
            for member in found:
                path, _, id_ = member.partition(" ")
                its = (*self._keys.of_path(path)[2:], self._keys.hold(path, id_))
                keys += its
                args += (path, id_, len(its))
            count += await self._runner.run("expire", keys, args)

    async def _run_on_account(self, name: str, arguments: Arguments, *own: Any) -> list[Any]:
        """Run a script on the accounts of a path."""
        keys = self._keys.of_path(arguments["path"])
        reply: list[Any] = await self._runner.run(name, keys, script_args.common(arguments, *own))
        return reply

    async def _run_on_list(self, name: str, arguments: Arguments, *own: Any) -> Any:
        """Run a script on the list of all accounts."""
        keys = self._keys.accounts, self._keys.roots
        return await self._runner.run(name, keys, script_args.common(arguments, *own))

    async def _refuse_eviction(self, path: str) -> None:
        """Raise `ValueError` if a path's server may evict keys; one that does not tell passes.

        Each node of a cluster is asked once, when it is first needed.
        """
        node = await self._runner.node_of(self._keys.account(path) if path else self._keys.accounts)
        if node is not None and node.name in self._asked:
            return
        info: Any = {}
        try:
            ask = self._runner.client.info
            info = await maybe_await(ask("memory", **({"target_nodes": node} if node else {})))
        except ERRORS as error:
            if not (isinstance(error, ResponseError) and is_forbidden(error)):
                await self._runner.fail(error, False)
        policy = replies.policy(info)
        if policy != "noeviction":
            raise ValueError(
                f"the server may evict holds (its maxmemory-policy is {policy}): set noeviction, "
                "or pass check_eviction=False"
            )
        if node is None:
            self._check_eviction = False
        else:
            self._asked.add(node.name)
