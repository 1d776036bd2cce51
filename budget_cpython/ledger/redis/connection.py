"""Do a ledger's operations on a Redis server, by scripts."""

from collections.abc import Sequence
from typing import Any, NoReturn

from redis.exceptions import NoScriptError, ResponseError

from budget_core.ledger.limit import MOST
from budget_cpython.ledger.redis import error_mapping, replies, script_args
from budget_cpython.ledger.redis.clients import Client
from budget_cpython.ledger.redis.names import Names
from budget_cpython.ledger.redis.script_args import Arguments
from budget_cpython.ledger.redis.scripts import script

AT_A_TIME = 100  # holds that are over
PAGE = 1000  # accounts, or roots


class RedisConnection:
    """What `remote` asks, answered by scripts; see `remote.Connection`.

    What a script finds that comes first, it says, and changes nothing: a window that is `over`, an
    id that is `known`, holds that are `due`. Then that is done by a script of its own, and asked
    again: what is rare does not slow down each call.
    """

    def __init__(self, client: Client, names: Names, check_eviction: bool) -> None:
        self._client = client
        self._names = names
        self._unchecked = check_eviction

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation."""
        if self._unchecked:
            await self._check_eviction()
        if operation == "accounts":
            return "ok", await self._scan("SSCAN", self._names.accounts)
        if operation == "expire":
            return "ok", await self._expire(arguments)
        if operation == "set_limits":
            return await self._set_limits(arguments)
        return await self._do(operation, arguments)

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.close()

    async def _do(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        own = script_args.own(operation, arguments)
        while True:
            reply = await self._ask(operation, arguments, own)
            if reply.__class__ is int:
                return "ok", replies.fresh(arguments, reply)
            reply = replies.plain(reply)
            if reply[0] == "over":
                reply = await self._path_script("move", arguments, script_args.bounds(arguments))
                if reply[0] == "roll":
                    return reply  # type: ignore[no-any-return]
            elif reply[0] == "known":
                reply = replies.plain(await self._ask("again", arguments, own))
                if reply[0] != "gone":
                    return replies.read(operation, arguments, reply)
            elif reply[0] == "due":
                await self._expire_root(arguments)
            else:
                return replies.read(operation, arguments, reply)

    async def _ask(self, operation: str, arguments: Arguments, own: Sequence[Any]) -> Any:
        """Run a script on a path, and on its hold where there is one."""
        path = arguments["path"]
        keys, id_ = self._names.of_path(path), arguments.get("id")
        if id_ is not None:
            keys = (*keys, self._names.hold(path, id_))
        return await self._run(operation, keys, arguments, id_ or "", own)

    async def _path_script(self, name: str, arguments: Arguments, *own: Any) -> Any:
        """Run a script on a path alone."""
        keys = self._names.of_path(arguments["path"])
        return replies.plain(await self._run(name, keys, arguments, "", own))

    async def _set_limits(self, arguments: Arguments) -> Sequence[Any]:
        """Note the account before there is one, and forget it after it is gone.

        So the list of all accounts, which is in another slot of a cluster, never lacks one.
        """
        limits, most = arguments["limits"], arguments["max_accounts"]
        reply = await self._path_script(
            "set_limits", arguments, *script_args.limits(arguments, False)
        )
        if reply[0] == "new":
            if (await self._registry("register", arguments, most))[0] == "full":
                return "full", f"the ledger has its {most} accounts: raise max_accounts"
            reply = await self._path_script(
                "set_limits", arguments, *script_args.limits(arguments, True)
            )
        if reply[0] == "ok":
            await self._list(arguments, bool(limits))
        return replies.read("set_limits", arguments, reply)

    async def _list(self, arguments: Arguments, there: bool) -> None:
        """Make the list say whether there is an account, until nobody has changed that meanwhile.

        Whoever writes to the list looks afterwards, so the last to write leaves it right.
        """
        while True:
            await self._registry("register" if there else "unregister", arguments, MOST)
            _, limits = await self._path_script("limits", arguments)
            if bool(limits) == there:
                return
            there = not there

    async def _expire(self, arguments: Arguments) -> int:
        """Expire what is over, root by root; forget roots without accounts and holds."""
        count = 0
        for place in await self._scan("HSCAN", self._names.roots):
            asked = {**arguments, "path": place}
            expired, live = await self._expire_root(asked)
            count += expired
            if not live:
                await self._registry("forget", asked)
        return count

    async def _expire_root(self, arguments: Arguments) -> tuple[int, int]:
        """Expire what is over below the path's root; return how many were, and how many live."""
        count = 0
        while True:
            word, found = await self._path_script("due", arguments, AT_A_TIME)
            if word == "ok":
                return count, found
            keys: list[str] = list(self._names.of_path(arguments["path"])[:2])
            own: list[Any] = []
            for member in found:
                path, _, id_ = member.partition(" ")
                its = (*self._names.of_path(path)[2:], self._names.hold(path, id_))
                keys += its
                own += (path, id_, len(its))
            count += await self._run("expire", keys, arguments, "", own)

    async def _registry(self, name: str, arguments: Arguments, *own: Any) -> Any:
        """Run a script on the list of all accounts."""
        keys = (self._names.accounts, self._names.roots)
        return replies.plain(await self._run(name, keys, arguments, "", own))

    async def _scan(self, command: str, key: str) -> list[str]:
        """Return the members of a set, or the fields of a hash, a page at a time."""
        found: dict[str, None] = {}
        cursor: Any = 0
        while True:
            try:
                page = await self._client.run(command, key, cursor, "COUNT", PAGE)
            except error_mapping.ERRORS as error:
                await self._complain(error)
            cursor, members = replies.plain(page)
            found.update(dict.fromkeys(members))
            if not int(cursor):
                return list(found)

    async def _run(
        self, name: str, keys: Sequence[str], arguments: Arguments, id_: str, own: Sequence[Any]
    ) -> Any:
        """Run a script by its digest, or by its text where the server does not know that."""
        now = arguments["now"]
        common = ("" if now is None else now, arguments["keep_ms"] or 1, arguments["path"], id_)
        asked = (len(keys), *keys, *common, *own)
        known = script(name)
        try:
            try:
                return await self._client.script("EVALSHA", known.sha, *asked)
            except NoScriptError:
                return await self._client.script("EVAL", known.text, *asked)
        except error_mapping.ERRORS as error:
            await self._complain(error)

    async def _complain(self, error: Exception) -> NoReturn:
        if error_mapping.is_read_only(error):  # another server may have its address by now
            await self._client.drop()
        raise error_mapping.meant(error, self._names.prefix, not self._client.repeats) from error

    async def _check_eviction(self) -> None:
        """Refuse a server that may drop holds; one that does not tell its policy is believed."""
        answer: Any = {}
        try:
            answer = await self._client.run("INFO", "memory")
        except ResponseError as error:
            if not error_mapping.is_forbidden(error):
                await self._complain(error)
        except error_mapping.ERRORS as error:
            await self._complain(error)
        policy = replies.policy(answer)
        if policy != "noeviction":
            raise ValueError(
                f"the server may evict holds (its maxmemory-policy is {policy}): set noeviction, "
                "or pass check_eviction=False"
            )
        self._unchecked = False
