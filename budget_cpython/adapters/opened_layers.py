"""Open the layers that a line of limits names: what is refused, and where each limit is counted."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, Unpack

from budget_core.ledger.limit import Limit
from budget_cpython.adapters.layer import Layer, Options, check_prices
from budget_cpython.ledger.default_ledger import (
    default_account,
    default_url,
    set_default_limits,
    usable_default,
)
from budget_cpython.ledger.limit_parser import check_counted, parse_budget

_LIMITS: dict[tuple[str, str], set[Limit]] = {}  # that this program set, by URL and account
_LOCK = Lock()


@dataclass(frozen=True)
class Caller:
    """The user of layers: its name, and whether it makes calls of models and of tools."""

    name: str
    models: bool = True
    tools: bool = True


def layers_of(
    limits: str | None,
    ledger: Any,
    account: str | None,
    caller: Caller,
    /,
    **options: Unpack[Options],
) -> tuple[Layer, ...]:
    """Return the layers of what `budgeted` was given; none where it was given nothing."""
    if limits is None and ledger is None and account is None and not options:
        return ()
    found, seconds = ([], None) if limits is None else parse_budget(limits)
    if seconds is not None:
        raise ValueError(
            f"limits of a client have no time: {limits!r}. Give it to a block, as in "
            "with budget('10 min')"
        )
    return open_layers(found, ledger, account, caller, **options)


def open_layers(
    limits: list[Limit],
    ledger: Any,
    account: str | None,
    caller: Caller,
    /,
    **options: Unpack[Options],
) -> tuple[Layer, ...]:
    """Return the layers that limits are on, the outermost first.

    Without a ledger those with a window are on an account of the default ledger, and the others in
    memory. Raises `ValueError` for a limit that nothing would count, and for an account without a
    ledger.
    """
    check_counted(limits, caller.name, caller.models, caller.tools)
    is_money = any(limit.axis == "nano_usd" for limit in limits)
    if is_money and not caller.models and not options.get("tool_prices"):
        raise ValueError(
            f"{caller.name} counts dollars of tools only, and none has a price: give "
            "tool_prices={'search': '0.01'}"
        )
    if ledger is not None:
        return (Layer(limits, ledger, account, **options),)
    kept = [limit for limit in limits if limit.window != "run"]
    passing = [limit for limit in limits if limit.window == "run"]
    if kept:
        own = (Layer(passing, **options),) if passing else ()
        return (_on_default_ledger(kept, account, caller.name, **options), *own)
    if account is not None:
        raise ValueError(
            f"account={account!r} names an account of a ledger: give ledger= too, or limits with a "
            "window, such as '$5/day'"
        )
    return (Layer(limits, **options),)


def _on_default_ledger(
    limits: list[Limit], account: str | None, name: str, **options: Unpack[Options]
) -> Layer:
    """Return a layer on the default ledger, by default on the account of this program."""
    url, path = default_url(), default_account(name) if account is None else account
    with _LOCK:
        known = _LIMITS.get((url, path), set(limits))
        if account is None and known != set(limits):
            raise ValueError(
                f"the account {path} has other limits in this program: give these an account of "
                "their own, as in account='research'"
            )
        with usable_default(url):
            layer = Layer((), url, path, **options)
            check_prices(limits, options)
            if (url, path) not in _LIMITS or known != set(limits):
                set_default_limits(layer.ledger, url, path, limits)
        _LIMITS[url, path] = set(limits)
        return layer
