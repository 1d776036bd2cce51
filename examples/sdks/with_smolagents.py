"""Put a budget round an agent of smolagents: at its end it answers with what it has found.

The model is the embedded endpoint's, which would search for ever. Run it with
`pip install 'microbudget[smolagents,prices]' openai`:
PYTHONPATH=. python examples/sdks/with_smolagents.py
"""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from budget_cpython import budget, budgeted
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


@tool
def search(words: str) -> str:
    """Find books.

    Args:
        words: what they are about.

    """
    print("  search:", words)
    return f"2 books on {words}"


def runaway(asked: Asked) -> Reply:
    """Search for as long as there are tools."""
    if asked.tools:
        return Reply(calls=(ScriptedToolCall("search", '{"words": "whales"}'),))
    return Reply("I found 2 books on whales, and had no time to read them.")


with ScriptedEndpoint(scripts={"gpt-4o-mini": runaway}) as endpoint:
    model = OpenAIServerModel("gpt-4o-mini", api_base=endpoint.base_url, api_key="none")
    agent = budgeted(
        ToolCallingAgent([search], model, verbosity_level=0),
        "$1 + 2 tool:search",
        tool_prices={"search": "0.01"},
    )
    with budget("4 calls + 2 min") as block:
        print("answer:", agent.run("Which books are there on whales?"))
    print(f"calls used: {block.spent['calls']} of 4, tools: {block.spent['tool_calls']}")
