"""Play the scenarios and print what each one saw."""

import asyncio
import json
import sys

from . import budgets, edges, network, turns


async def main(names: "list[str]") -> None:
    """Play the scenarios of those names, or all of them."""
    for scenario in edges.ALL + turns.ALL + budgets.ALL + network.ALL:
        if not names or scenario.__name__ in names:
            print(json.dumps({"scenario": scenario.__name__, "saw": await scenario()}))


asyncio.run(main(sys.argv[1:]))
