"""Events of a ledger in words, as the page shows them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from budget_core.ledger.checks import MOST
from budget_core.log import printable
from budget_core.until import stamp
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ops.words import amount_words, limit_text, limits_text, short_amount

_LONGEST = 200


class RefusalRow(NamedTuple):
    """A refusal, with the limit that was in the way; `times` is how many there were."""

    at: int
    account: str
    limited: str
    limit: str
    reason: str
    times: int
    resets_at: int | None
    would: str


def refusal(event: LedgerEvent, sees: Callable[[str], bool]) -> RefusalRow:
    """Return a refusal in words; `sees(path)` tells whether its reader may see an account's spend.

    Of a limit that the reader may not see it has only what it is on.
    """
    try:
        return _refusal(event, sees)
    except (ValueError, IndexError):  # a window that is none
        return RefusalRow(event.at, event.account, "", "", "", 1, None, "")


def _refusal(event: LedgerEvent, sees: Callable[[str], bool]) -> RefusalRow:
    said = event.details
    limit = said.get("limit")
    limit = limit if isinstance(limit, dict) else {}
    account, axis = _text(limit.get("account")), _text(limit.get("axis"))
    window = _text(limit.get("window"))
    cap, spent, held = (_whole(limit.get(name)) for name in ("cap", "spent", "held"))
    asked, resets_at = _whole(said.get("asked")), _whole(limit.get("resets_at"))
    times, would = event.times, _text(said.get("would"))
    if not axis:
        return RefusalRow(event.at, event.account, account, "", "", times, None, would)
    wanted = f"asked for {amount_words(axis, asked)}" if asked is not None else "asked for more"
    if not sees(account):
        limited = f"{limit_text(axis, None, window).removesuffix(' without limit')}, above"
        return RefusalRow(event.at, event.account, "", limited, wanted, times, resets_at, would)
    reason = f"{short_amount(axis, spent or 0)} spent"
    if held:
        reason += f", {short_amount(axis, held)} held"
    shown = limit_text(axis, cap, window)
    reason = f"{reason}; {wanted}"
    return RefusalRow(event.at, event.account, account, shown, reason, times, resets_at, would)


def grouped(refusals: Iterable[RefusalRow]) -> list[RefusalRow]:
    """Return the first of the refusals of each account on each limit, with how many there were."""
    found: dict[tuple[str, ...], RefusalRow] = {}
    for one in refusals:
        place = (one.account, one.limited, one.limit, one.would)
        times = found[place].times + one.times if place in found else one.times
        found[place] = found.get(place, one)._replace(times=times)
    return list(found.values())


def change(event: LedgerEvent) -> str:
    """Return an event other than a refusal in words."""
    teller = _TELLERS.get(event.kind)
    try:
        said = teller(event.details) if teller else event.kind
    except (ValueError, IndexError):  # a window that is none
        said = event.kind
    return printable(said)[:_LONGEST]


def who(event: LedgerEvent) -> str:
    """Return who caused an event, as far as it is known."""
    return printable(_text(event.details.get("by")))


_TELLERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "limits": lambda said: f"limits: {_line(said.get('before'))} → {_line(said.get('after'))}",
    "keys": lambda said: f"key {_text(said.get('key'))} {_text(said.get('change'))}{_rights(said)}",
    "threshold": lambda said: f"{_whole(said.get('percent')) or 0} % of {_limit(said)} spent",
    "forecast": lambda said: (
        f"{_limit(said)} will be empty {_time(said.get('empty_at'))}, before its reset"
    ),
    "outage": lambda said: (
        f"ledger out of reach: {_time(said.get('from'))} to {_time(said.get('until'))} "
        f"({_text(said.get('error'))})"
    ),
    "grant": lambda said: f"granted while the ledger was out of reach: {_amounts(said)}",
    "released": lambda said: f"hold {_text(said.get('hold'))} released: {_amounts(said)}",
    "charged": lambda said: f"recorded as spent: {_amounts(said)}",
    "alert": lambda said: (
        f"alert to {_text(said.get('to'))} {_text(said.get('state'))}, "
        f"attempt {_whole(said.get('attempt')) or 1}"
    ),
}
CHANGES = tuple(_TELLERS)  # the kinds of events that are told in words


def amounts_words(amounts: dict[str, int]) -> str:
    """Return amounts by axis on a line, as in `$0.03, 1 calls, 1,200 tokens`."""
    return ", ".join(amount_words(axis, amounts[axis]) for axis in amounts if amounts[axis])


def _amounts(said: dict[str, Any]) -> str:
    found = said.get("amounts")
    rows = found.items() if isinstance(found, dict) else ()
    return amounts_words({_text(axis): _whole(amount) or 0 for axis, amount in rows})


def _rights(said: dict[str, Any]) -> str:
    rights = said.get("rights")
    return f" ({', '.join(map(_text, rights))})" if isinstance(rights, list) else ""


def _line(found: Any) -> str:
    rows = found if isinstance(found, list) else []
    good = [row for row in rows if isinstance(row, list) and len(row) == 3]
    return limits_text((_text(axis), _whole(cap), _text(window)) for axis, cap, window in good)


def _limit(said: dict[str, Any]) -> str:
    return limit_text(_text(said.get("axis")), _whole(said.get("cap")), _text(said.get("window")))


def _time(found: Any) -> str:
    at = _whole(found)
    return "?" if at is None else stamp(at)


def _text(found: Any) -> str:
    """Return a text of an event: what others noted may be anything that JSON holds."""
    return found[:_LONGEST] if isinstance(found, str) else ""


def _whole(found: Any) -> int | None:
    is_whole = isinstance(found, int) and not isinstance(found, bool)
    return found if is_whole and 0 <= found <= MOST else None
