"""An MCP server on stdio, whose tools may be called twice; for tests and by hand."""

from mcp.server.mcpserver import MCPServer

from budget_cpython.adapters.frameworks.mcp import ToolBudgetMiddleware

server = MCPServer(
    "words", middleware=[ToolBudgetMiddleware("2 tool:count", ledger="memory:", account="server")]
)


@server.tool()  # type: ignore[untyped-decorator, unused-ignore]
def count(text: str) -> int:
    """Return how many words there are."""
    return len(text.split())


if __name__ == "__main__":
    server.run("stdio")
