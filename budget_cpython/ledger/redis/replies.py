"""Read the replies of scripts."""

from collections.abc import Iterator, Sequence
from typing import Any

from budget_core.ledger.bucket import COMMITTED, HELD
from budget_core.ledger.checks import chain
from budget_cpython.ledger.redis.script_args import Arguments


def text(reply: Any) -> Any:
    """Return a reply with its bytes decoded: it depends on the client whether they are."""
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, (list, tuple)):
        return [one if one.__class__ is int else text(one) for one in reply]
    if isinstance(reply, dict):
        return {text(one): text(reply[one]) for one in reply}
    return reply


def read(operation: str, arguments: Arguments, reply: Sequence[Any]) -> Sequence[Any]:
    """Return a script's reply as `remote.Backend` says."""
    word, *details = reply
    path = arguments["path"]
    if word == "refused":
        return word, [_summed(_with_account(row, path, 1), 6) for row in details[0]]
    if word != "ok" or not details:
        return word, *details, None
    if operation == "limits":
        return word, details[0]
    if operation in ("balance", "history"):
        return word, [_summed(_with_account(row, path, 0), 4) for row in details[0]]
    amounts, state, expires, actual = details
    used = None if actual is None else _amounts(actual)
    return word, (path, arguments["id"], _amounts(amounts), state, expires, used)


def fresh(arguments: Arguments, expires: int) -> tuple[Any, ...]:
    """Return the hold that was just taken, or the charge, which never expires."""
    amounts = arguments["amounts"]
    held = (HELD, expires, None) if expires else (COMMITTED, None, amounts)
    return arguments["path"], arguments["id"], amounts, *held


def policy(info: Any) -> str:
    """Return the eviction policy of the first server that evicts, or `noeviction`."""
    servers = [info] if "maxmemory_policy" in info else list(info.values())
    found = [one.get("maxmemory_policy", "noeviction") for one in servers if isinstance(one, dict)]
    return next((one for one in found if one != "noeviction"), "noeviction")


def balances(lines: str, accounts: Sequence[str]) -> Iterator[list[Any]]:
    """Return rows of balances as `remote.Backend` says; the accounts are numbered from 1."""
    for line in lines.split("\n") if lines else ():
        account, axis, window, *numbers = line.split("\t")
        cap, spent, spent_high, held, held_high, start, end = map(int, numbers)
        spent, held = spent + (spent_high << 52), held + (held_high << 52)
        place = (accounts[int(account) - 1], axis, window)
        yield [*place, None if cap < 0 else cap, spent, held, start, end]


def open_holds(lines: str) -> Iterator[tuple[int, int, int, dict[str, int]]]:
    """Return the place of each hold, when it was taken, when it expires, and its amounts."""
    for line in lines.split("\n") if lines else ():
        at, taken, expires, *held = line.split("\t")
        amounts = dict(zip(held[::2], map(int, held[1::2]), strict=True))
        yield int(at), int(taken), int(expires), amounts


def _with_account(row: Sequence[Any], path: str, at: int) -> list[Any]:
    """Return a row with the account in the place of its depth."""
    return [*row[:at], chain(path)[row[at] - 1], *row[at + 1 :]]


def _summed(row: list[Any], at: int) -> list[Any]:
    """Return a row with what is spent and held, given as two numbers each, as one each."""
    spent, spent_high, held, held_high = row[at : at + 4]
    return [*row[:at], spent + (spent_high << 52), held + (held_high << 52), *row[at + 4 :]]


def _amounts(flat: Sequence[Any]) -> dict[str, int]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
