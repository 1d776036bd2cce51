"""What operators note and read in Redis: many accounts by pages, each a script of its own."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import methodcaller
from typing import Any

from budget_core.ledger.checks import root
from budget_cpython.ledger.redis import replies, script_args
from budget_cpython.ledger.redis.keys import Keys
from budget_cpython.ledger.redis.runner import PAGE, Runner
from budget_cpython.ledger.redis.script_args import Arguments
from budget_cpython.ledger.selection import is_below

STEP = 500  # accounts, or holds, that one script reads
_REPLY_MS = 600_000  # within which an operation whose outcome is unknown is sent again
_LAST = 1 << 62


class RedisJournal:
    """The operations of an `AsyncJournal`; `expire_root` expires the holds below a root.

    Events are a stream whose ids are their numbers; usage is a hash for each hour.
    """

    def __init__(
        self, runner: Runner, keys: Keys, expire_root: Callable[[Arguments], Awaitable[Any]]
    ) -> None:
        self._runner = runner
        self._keys = keys
        self._expire_root = expire_root

    async def balances(self, arguments: Arguments) -> Sequence[Any]:
        """Return rows of balances, or names of windows whose bounds are needed."""
        accounts = await self._runner.scan("sscan", self._keys.accounts)
        pages = list(_pages(one for one in accounts if is_below(one, arguments["path"])))
        rows: list[Any] = []
        while pages:
            found = await self._read_accounts(arguments, pages)
            names: dict[str, None] = {}
            again = []
            for page, (word, *details) in zip(pages, found, strict=True):
                if word == "ok":
                    rows += replies.balances(details[0], page)
                elif word == "due":
                    await self._expire_root({**arguments, "path": root(page[0])})
                    again.append(page)
                else:
                    now, lacking = details
                    names.update(dict.fromkeys(lacking))
            if names:  # the known ones too: the answer replaces them
                return "roll", now, [*arguments["bounds"], *names]
            pages = again
        return "ok", rows

    async def open_holds(self, arguments: Arguments) -> Sequence[Any]:
        """Return rows of holds that are not settled, the oldest first."""
        path = arguments["path"]
        roots = [root(path)] if path else await self._runner.scan("hscan", self._keys.roots)
        live = await self._runner.scan_all("zscan", [self._keys.of_path(one)[0] for one in roots])
        members = [tuple(one.split(" ", 1)) for of_root in live.values() for one in of_root]
        pages = list(_pages((one for one in members if is_below(one[0], path)), lambda one: one[0]))
        found = await self._runner.run_all(
            "open_holds",
            [
                (
                    [*self._keys.of_path(page[0][0])[:2], *[self._keys.hold(*one) for one in page]],
                    script_args.common({**arguments, "path": ""}),
                )
                for page in pages
            ],
        )
        rows = [
            (taken, *page[at], amounts, expires)
            for page, (_, lines) in zip(pages, found, strict=True)
            for at, taken, expires, amounts in replies.open_holds(lines)
        ]
        rows.sort(key=lambda row: row[:3])
        return "ok", [
            (account, id_, held, taken, expires)
            for taken, account, id_, held, expires in rows[: arguments["most"]]
        ]

    async def note(self, arguments: Arguments) -> Sequence[Any]:
        """Append events; return their numbers."""
        rows = [text for row in arguments["events"] for text in row]
        own = (arguments["most_events"], arguments["keep_s"], _REPLY_MS, *rows)
        keys = (*self._keys.events, self._keys.reply(arguments["id"]))
        reply: Sequence[Any] = await self._runner.run(
            "note", keys, script_args.common(arguments, *own)
        )
        return reply

    async def events(self, arguments: Arguments) -> Sequence[Any]:
        """Return rows of events that are chosen, a page read at a time."""
        after, kinds, most = arguments["after"], arguments["kinds"], arguments["most"]
        size = PAGE if arguments["path"] or kinds else min(PAGE, most)
        read, at = "XREVRANGE", "+"
        if after is not None:
            read, at = "XRANGE", f"({max(0, min(after, _LAST))}-0"
        rows: list[Any] = []
        while at and len(rows) < most:
            args = script_args.common(arguments, read, at, size, *kinds)
            _, at, found = await self._runner.run("events", self._keys.events[:1], args)
            rows += [
                (int(place.partition("-")[0]), int(noted_at), *rest)
                for place, noted_at, *rest in found
            ]
        rows = rows[:most]
        return "ok", rows if after is not None else rows[::-1]

    async def add_usage(self, arguments: Arguments) -> Sequence[Any]:
        """Add usage; drop hours that are over."""
        rows = arguments["usage"]
        hours = sorted({row[0] for row in rows})
        used = [
            one
            for hour, path, model, tool, amounts in rows
            for axis, amount in amounts.items()
            for one in (hours.index(hour) + 1, json.dumps([path, model, tool, axis]), amount)
        ]
        keys = (
            self._keys.hours,
            self._keys.reply(arguments["id"]),
            *[self._keys.usage(hour) for hour in hours],
        )
        own = (arguments["newest"], arguments["keep_s"], _REPLY_MS, *hours, *used)
        word, over = await self._runner.run("add_usage", keys, script_args.common(arguments, *own))
        for hour in over:
            await self._runner.send(methodcaller("unlink", self._keys.usage(int(hour))))
            await self._runner.send(methodcaller("zrem", self._keys.hours, hour))
        return word, None

    async def usage(self, arguments: Arguments) -> Sequence[Any]:
        """Return rows of what was used in hours since one."""
        since = arguments["since"]
        hours = await self._runner.send(
            methodcaller("zrangebyscore", self._keys.hours, since, "+inf")
        )
        keys = {self._keys.usage(int(hour)): int(hour) for hour in hours}
        found = await self._runner.scan_all("hscan", keys)
        rows = []
        for key, of_hour in found.items():
            for place, amount in of_hour.items():
                path, *rest = json.loads(place)
                if is_below(path, arguments["path"]):
                    rows.append((keys[key], path, *rest, int(amount)))
        return "ok", rows

    async def _read_accounts(self, arguments: Arguments, pages: list[list[str]]) -> list[Any]:
        bounds = script_args.bounds(arguments)
        calls = [
            (
                [*self._keys.of_path(page[0])[:2], *[self._keys.account(one) for one in page]],
                script_args.common({**arguments, "path": ""}, bounds),
            )
            for page in pages
        ]
        return await self._runner.run_all("balances", calls)


def _pages(
    members: Iterable[Any], path_of: Callable[[Any], str] = lambda one: str(one)
) -> Iterator[list[Any]]:
    """Return pages of members, those of one page below one root, whose keys are in one slot."""
    by_root: dict[str, list[Any]] = {}
    for one in members:
        by_root.setdefault(root(path_of(one)), []).append(one)
    for found in by_root.values():
        rest = iter(found)
        while page := list(islice(rest, STEP)):
            yield page
