"""A LangChain agent with a budget: it is warned, then answers in time from what it has found.

    pip install 'microbudget[langchain]' langchain-openai
    PYTHONPATH=. python examples/sdks/with_langchain.py

A scripted model on this machine stands in for OpenAI. Left alone, it would read rooms for ever.
"""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from budget_cpython import budget
from budget_cpython.adapters.frameworks.langchain import BudgetMiddleware
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


@tool
def look(room: str) -> str:
    """Say what is in a room."""
    return f"In the {room} is a tomato."


def reply(asked: Asked) -> Reply:
    """Answer as a model that looks on for as long as it is offered the tool."""
    seen = [one for one in asked.messages if one["role"] == "tool"]
    if "look" in asked.tools:
        return Reply(calls=(ScriptedToolCall("look", f'{{"room": "room {len(seen) + 1}"}}'),))
    return Reply(f"I looked into {len(seen)} rooms, and each has a tomato.")


def main() -> None:
    """Run an agent on four calls, and print what the model was told."""
    with ScriptedEndpoint(scripts={"gpt-4o-mini": reply}) as endpoint:
        model = ChatOpenAI(model="gpt-4o-mini", base_url=endpoint.base_url, api_key="none")
        limited = BudgetMiddleware("4 calls", warning_thresholds=(0.5,))
        agent = create_agent(model, [look], middleware=[limited])
        with budget("$0.01 + 1 min") as block:
            result = agent.invoke({"messages": [{"role": "user", "content": "What is there?"}]})
        for request in endpoint.requests:
            last = request.body["messages"][-1]
            print(f"{last['role']}: {last['content']}")
    print(f"assistant: {result['messages'][-1].content}")
    print(f"used: {block.spent['calls']} calls, ${block.spent['nano_usd'] / 1e9:.6f}")


if __name__ == "__main__":
    main()
