"""Anthropic's client on a budget: a stream is counted, and thinking fits into what is left.

    pip install 'microbudget[anthropic]'
    PYTHONPATH=. python examples/sdks/with_anthropic.py

A scripted model on this machine stands in for Anthropic.
"""

import asyncio

from anthropic import APIStatusError, AsyncAnthropic

from budget_cpython import budget, budgeted
from scripted_model import ScriptedEndpoint


async def ask(client: AsyncAnthropic, question: str) -> None:
    """Print an answer as it comes."""
    async with client.messages.stream(
        model="scripted",
        messages=[{"role": "user", "content": question}],
        max_tokens=8_000,
        thinking={"type": "enabled", "budget_tokens": 4_000},
    ) as stream:
        async for text in stream.text_stream:
            print(text, end="")
    print()


async def main() -> None:
    """Ask until the budget refuses, and print what was sent in place of each request."""
    with ScriptedEndpoint() as endpoint:
        async with AsyncAnthropic(base_url=endpoint.root_url, api_key="none") as raw:
            client = budgeted(raw)
            with budget("3_000 tokens + 2 calls + 1 min") as block:
                try:
                    for _ in range(3):
                        await ask(client, "How do tomatoes grow?")
                except APIStatusError as error:
                    print(f"refused with {error.status_code}: {error.__cause__}")
        for request in endpoint.requests:
            thinking = request.body["thinking"]["budget_tokens"]
            print(f"up to {request.body['max_tokens']} tokens, of which {thinking} to think")
        print(f"used: {block.spent['calls']} calls, {block.spent['tokens']} tokens")


if __name__ == "__main__":
    asyncio.run(main())
