"""Note events of a ledger without changing what its caller gets."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_cpython.ledger.journal import LedgerEvent


def note_quietly(ledger: "Any", events: "Sequence[LedgerEvent]") -> None:
    """Note events on a ledger that blocks; where it cannot, that is logged at debug."""
    try:
        noting = _begin(ledger, events)
        if hasattr(noting, "send"):  # of a ledger for asyncio, below one that blocks
            from budget_core.ledger.outbox import finish  # with asyncio: loaded for those few

            finish(noting)
    except Exception as error:  # noqa: BLE001 - the caller gets what the ledger answered
        _log(events, error)


async def note_quietly_awaited(ledger: "Any", events: "Sequence[LedgerEvent]") -> None:
    """Note events on a ledger; where it cannot, that is logged at debug."""
    try:
        noting = _begin(ledger, events)
        if hasattr(noting, "__await__"):
            await noting
    except Exception as error:  # noqa: BLE001 - the caller gets what the ledger answered
        _log(events, error)


def _begin(ledger: "Any", events: "Sequence[LedgerEvent]") -> "Any":
    note = getattr(ledger, "note", None)  # the core's own ledger, and some of users, keep no events
    return note(events) if events and note is not None else None


def _log(events: "Sequence[LedgerEvent]", error: Exception) -> None:
    from budget_core.log import log  # with logging: loaded where there is something to log

    log("debug", f"an event of kind {events[0].kind} could not be noted: {error}")
