"""Open the layers that a line of limits names: what is refused, and where each limit is counted."""

from dataclasses import dataclass
from typing import Any, Unpack

from budget_core.ledger.limit import Limit
from budget_cpython.adapters.layer import Layer, Options
from budget_cpython.ledger.limit_parser import check_counted, parse_budget


@dataclass(frozen=True)
class Caller:
    """What draws on layers: its name, and whether it makes calls of models and of tools."""

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
    """Return the layers of limits; raise `ValueError` for a limit that nothing would count."""
    check_counted(limits, caller.name, caller.models, caller.tools)
    is_money = any(limit.axis == "nano_usd" for limit in limits)
    if is_money and not caller.models and not options.get("tool_prices"):
        raise ValueError(
            f"{caller.name} counts dollars of tools only, and none has a price: give "
            "tool_prices={'search': '0.01'}"
        )
    return (Layer(limits, ledger, account, **options),)
