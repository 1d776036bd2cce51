"""Google's client on a budget: clients of a team share an account in a file.

    pip install 'microbudget[google-genai]'
    PYTHONPATH=. python examples/sdks/with_google_genai.py

A scripted model on this machine stands in for Google.
"""

from tempfile import TemporaryDirectory

from google import genai
from google.genai.errors import ClientError
from google.genai.types import HttpOptions

from budget_cpython import budgeted
from scripted_model import ScriptedEndpoint


def main() -> None:
    """Have two clients of one account ask until the budget refuses."""
    with TemporaryDirectory() as folder, ScriptedEndpoint() as endpoint:
        options = HttpOptions(base_url=endpoint.root_url)
        raw = genai.Client(api_key="none", http_options=options)
        ledger, team = f"sqlite:{folder}/budget.db", "acme/garden"
        first = budgeted(raw, "3 calls/day", ledger=ledger, account=team)
        second = budgeted(raw, ledger=ledger, account=f"{team}/basil")
        try:
            for client in (first, second) * 2:
                answer = client.models.generate_content(model="scripted", contents="What grows?")
                print(f"model: {answer.text}")
        except ClientError as error:
            print(f"refused with {error.code}: {error.__cause__}")
        print(f"answered: {len(endpoint.requests)} requests")


if __name__ == "__main__":
    main()
