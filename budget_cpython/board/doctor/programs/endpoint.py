"""Ask the endpoint for its models, as the board's program would ask for an answer."""
# mypy: ignore-errors

import asyncio
import time

import settings

from budget_core.board.device import optional
from budget_core.errors import ProviderError


async def _ask(client):
    from budget_core.chat.http import HttpExchange

    endpoint = client._endpoint
    endpoint.timeout_s = min(endpoint.timeout_s, 30)
    exchange = HttpExchange(endpoint)
    start = time.ticks_ms()
    try:
        await exchange.send("GET", endpoint.path + "/models", tuple)
    except ProviderError as error:
        return {"url": client.base_url, "error": str(error)}
    finally:
        await exchange.close()
    took = time.ticks_diff(time.ticks_ms(), start)
    return {"url": client.base_url, "status": exchange.status, "ms": took}


def _look():
    from budget_core.board.make_agent import make_client
    from budget_core.chat.client import ChatClient  # noqa: F401 - the room may be left out

    try:
        client = make_client(settings, optional("secret"))
    except AttributeError as error:
        return {"absent": "its settings name no endpoint: " + str(error)}
    except ValueError as error:
        return {"wrong": str(error)}
    return asyncio.run(_ask(client))
