"""OpenAI's client on a budget: it is warned, gets shorter answers, and is refused in the end.

    pip install 'microbudget[openai]'
    PYTHONPATH=. python examples/sdks/with_openai.py

A scripted model on this machine stands in for OpenAI.
"""

from openai import APIStatusError, OpenAI

from budget_cpython import budgeted
from scripted_model import ScriptedEndpoint


def main() -> None:
    """Ask until the budget refuses, and print what the model was told."""
    with ScriptedEndpoint() as endpoint:
        raw = OpenAI(base_url=endpoint.base_url, api_key="none")
        client = budgeted(raw, "4 calls + 300 tokens", warning_thresholds=(0.5,))
        try:
            for question in ("How do tomatoes grow?", "And basil?") * 3:
                answer = client.responses.create(model="scripted", input=question)
                print(f"assistant: {answer.output_text}")
        except APIStatusError as error:
            print(f"refused with {error.status_code}: {error.__cause__}")
        for request in endpoint.requests:
            said = request.body["input"]
            told = said[-1]["content"] if isinstance(said, list) else "nothing of the budget"
            print(f"up to {request.body['max_output_tokens']} tokens, told {told}")
        raw.close()


if __name__ == "__main__":
    main()
