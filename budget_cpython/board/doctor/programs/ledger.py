"""Ask the service of a fleet what the board's account has left; nothing is drawn or stored."""
# mypy: ignore-errors

import asyncio

import settings

from budget_core.board.device import optional
from budget_core.errors import BudgetError


def _look():
    if not getattr(settings, "LEDGER", ""):
        return {"absent": "its settings name no LEDGER"}
    import budget_core.board.make_agent as make_agent

    store = make_agent.open_store(settings)
    store.save = lambda state: None
    make_agent.open_store = lambda settings: store
    try:
        fleet = make_agent.make_fleet(settings, optional("secret"), make_agent.make_daily(settings))
    except ValueError as error:
        return {"wrong": str(error)}
    try:
        rows = asyncio.run(fleet.ledger.balance(fleet.account))
    except BudgetError as error:
        return {"account": fleet.account, "error": str(error)}
    left = [f"{row.left} {row.axis} per {row.window}" for row in rows if row.left is not None]
    return {"account": fleet.account, "left": ", ".join(left)}
