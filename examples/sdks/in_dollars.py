"""OpenAI's client on a budget in dollars: the call that does not fit is refused, the work is kept.

    pip install 'microbudget[openai]'
    PYTHONPATH=. python examples/sdks/in_dollars.py FOLDER

It has a model sum up the pages of a folder, one after the other, for five cents in all. A scripted
model on this machine stands in for OpenAI's gpt-4o, and costs what that does.
"""

import sys
from pathlib import Path

from openai import APIStatusError, OpenAI

from budget_cpython import budget, budgeted, dollars
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedUsage

MODEL = "gpt-4o"
LIMIT = "$0.05"
MAX_TOKENS = 200  # of an answer
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Sum up pages until the budget refuses, and print what each cost and what is kept."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    pages = sorted(folder.glob("*.md"))
    kept: dict[str, str] = {}
    with ScriptedEndpoint(scripts={MODEL: summary}) as endpoint:
        with OpenAI(base_url=endpoint.base_url, api_key="none") as openai:
            client = budgeted(openai)
            with budget(LIMIT) as run:
                for page in pages:
                    try:
                        kept[page.name] = sum_up(client, page)
                    except APIStatusError as error:
                        print(f"refused with {error.status_code}, not sent: {error.__cause__}")
                        break
                    spent = f"{dollars(run.spent['nano_usd'])} of {LIMIT} spent"
                    print(f"{page.name:<16}{spent:<28}{kept[page.name]}")
        answered = len(endpoint.answers)
    print(f"{answered} calls were made, and {len(kept)} of {len(pages)} pages are summed up")


def sum_up(client: OpenAI, page: Path) -> str:
    """Ask the model for a page in a few words."""
    question = f"Sum up this page in a few words.\n\n{page.read_text('utf-8')}"
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}], max_tokens=MAX_TOKENS
    )
    return answer.choices[0].message.content or ""


def summary(asked: Asked) -> Reply:
    """Return the heading of the page that was asked for: the scripted model's answer.

    Four characters are a token to it, as they are on average in English.
    """
    page = asked.messages[0]["content"]
    heading = next((line for line in page.splitlines() if line.startswith("# ")), "# (no heading)")
    answer = heading[2 : 2 + 4 * (asked.max_tokens or MAX_TOKENS)]
    return Reply(answer, usage=ScriptedUsage(-(-len(page) // 4), -(-len(answer) // 4)))


if __name__ == "__main__":
    main()
