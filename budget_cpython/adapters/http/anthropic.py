"""A budget round a client of anthropic.

It goes round the HTTP client, as for the other SDKs: the SDK's middleware came with a late version.
"""

from collections.abc import Sequence
from typing import TypeVar

from anthropic import Anthropic, APIStatusError, AsyncAnthropic

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.sdk_client import budgeted_copy, refuse_client

T = TypeVar("T")

_SIGNED = ("bedrock", "aws", "vertex", "google_cloud")


def budgeted(client: T, accounts: Sequence[BudgetAccount]) -> T:
    """Return a client of the same class whose calls draw on accounts.

    Counted are messages of `Anthropic` and `AsyncAnthropic`, also of the beta; counting tokens is
    free; batches are other calls. A refusal raises `anthropic.APIStatusError` with the status 402
    after one attempt; its cause is the error of the budget.

    Raises `ValueError` for a client of another cloud, and for anything else.
    """
    if not isinstance(client, (Anthropic, AsyncAnthropic)):
        refuse_client(client, "give an Anthropic or AsyncAnthropic")
    if any(f".{name}" in type(client).__module__ for name in _SIGNED):
        refuse_client(client, "it signs requests, or sends them in another form")
    return budgeted_copy(client, accounts, APIStatusError)
