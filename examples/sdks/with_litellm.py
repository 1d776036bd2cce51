"""LiteLLM within a budget: the retries and fallbacks of its router count, each attempt once.

    pip install 'microbudget[litellm]'
    PYTHONPATH=. python examples/sdks/with_litellm.py

A scripted model on this machine stands in for the vendors. `flaky` answers with nonsense.
"""

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # fetches no prices

import litellm

from budget_cpython import budget, budgeted
from scripted_model import ScriptedEndpoint

QUESTION = [{"role": "user", "content": "What is for dinner?"}]


def main() -> None:
    """Ask by the module, and by a router, until the budget refuses."""
    with ScriptedEndpoint() as endpoint, budget("6 calls + 1 min") as block:
        where = {"api_base": endpoint.base_url, "api_key": "none"}
        llm = budgeted(litellm)
        answer = llm.completion("openai/gpt-4o-mini", QUESTION, **where)
        print(f"module: {answer.choices[0].message.content} ({block.left['calls']} calls left)")

        params = {"flaky": "openai/not-json", "steady": "openai/gpt-4o-mini"}
        models = [
            {"model_name": name, "litellm_params": {"model": model, "max_tokens": 100, **where}}
            for name, model in params.items()
        ]
        fallbacks = [{"flaky": ["steady"]}]
        plain = litellm.Router(model_list=models, num_retries=1, fallbacks=fallbacks)
        router = budgeted(plain)
        before = len(endpoint.requests)
        answer = router.completion("flaky", QUESTION)
        attempts = len(endpoint.requests) - before
        print(f"router: {answer.choices[0].message.content} ({attempts} attempts)")
        try:
            while True:
                router.completion("steady", QUESTION)
        except litellm.BudgetExceededError as error:
            print(f"refused: {error}")
    print(f"sent: {len(endpoint.requests)} requests")


if __name__ == "__main__":
    main()
