"""A budget round a client of openai."""

from collections.abc import Sequence
from typing import TypeVar

from openai import APIStatusError, AsyncOpenAI, OpenAI

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.sdk_client import budgeted_copy, refuse_client

T = TypeVar("T")


def budgeted(client: T, accounts: Sequence[BudgetAccount]) -> T:
    """Return a client of the same class whose calls draw on accounts.

    Counted are chat completions, responses, embeddings and completions, of `OpenAI`, `AzureOpenAI`
    and their asyncio twins; images, batches and the like are other calls. A refusal raises
    `openai.APIStatusError` with the status 402 after one attempt; its cause is the error of the
    budget.

    Raises `ValueError` for a client that signs its requests, and for anything else.
    """
    if not isinstance(client, (OpenAI, AsyncOpenAI)):
        refuse_client(client, "give an OpenAI, AzureOpenAI or one of their asyncio twins")
    if "bedrock" in type(client).__module__:
        refuse_client(client, "it signs requests before a budget could change them")
    return budgeted_copy(client, accounts, APIStatusError)
