"""Play the scenarios and print what each one saw."""

import asyncio
import json
import sys

from exoclaw.utils.tasks import create_isolated_task

from . import budgets, edges, network, turns


async def main(names: "list[str]") -> None:
    """Play the scenarios of those names, or all of them, each in a task of its own.

    On MicroPython exoclaw keeps a task's variables by their addresses: a new one would have the
    value of one that is gone.
    """
    for scenario in edges.ALL + turns.ALL + budgets.ALL + network.ALL:
        if not names or scenario.__name__ in names:
            saw = await create_isolated_task(scenario())
            print(json.dumps({"scenario": scenario.__name__, "saw": saw}))


asyncio.run(main(sys.argv[1:]))
