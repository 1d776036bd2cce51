"""Put a budget round the tools of an MCP server: by its client, and by the server itself.

Run it with `pip install 'microbudget[mcp]'`: python examples/sdks/with_mcp.py
"""

import asyncio

from mcp import Client
from mcp.server.mcpserver import MCPServer

from budget_cpython import budget, budgeted
from budget_cpython.adapters.frameworks.mcp import ToolBudgetMiddleware

# The server: 5 searches a day for all its clients together.
library = ToolBudgetMiddleware("5 tool:search/day", ledger="memory:", account="library")
server = MCPServer("library", middleware=[library])


@server.tool()
def search(words: str) -> str:
    """Find books."""
    return f"2 books on {words}"


@server.tool()
def read(book: str) -> str:
    """Read a book."""
    return f"{book}: a long story"


async def main() -> None:
    """Search until the budget ends it; the model would read why."""
    async with Client(server) as plain:
        client = budgeted(plain, "$0.05 + 20 tool_calls", tool_prices={"search": "0.02"})
        with budget("10 tool_calls + 30 s") as block:
            for words in ("whales", "boats", "storms"):
                result = await client.call_tool("search", {"words": words})
                print("error:" if result.is_error else "found:", result.content[0].text)
            result = await client.call_tool("read", {"book": "Moby Dick"})
            print("read: ", result.content[0].text)
    print(f"used:  {block.spent['tool_calls']} of 10 tool calls, {block.left['tool_calls']} left")


asyncio.run(main())
