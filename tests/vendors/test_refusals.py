"""A refusal has its vendor's form, and no client tries it again."""

from typing import Any

import pytest

from budget_core.deadline import Deadline
from budget_core.errors import BudgetError, DeadlineExceeded, StoreError
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.llm_account import UnpricedError
from budget_cpython.adapters.refusals import Refusal, refusal
from budget_cpython.ledger.error_answers import rate_limit_headers
from budget_cpython.vendors.request import TooLittleLeftError, UnreadableRequestError
from tests.vendors.vectors import CHAT, GENERATE, MESSAGES, format_at

NOON = 1_772_366_400
EXCEEDED = BudgetExceededError("acme", "tokens", "day", 90, 100, 40, 10, NOON + 60, NOON)
FIGURES = {
    "scope": "acme",
    "axis": "tokens",
    "window": "day",
    "asked": 90,
    "limit": 100,
    "spent": 40,
    "held": 10,
    "left": 50,
    "resets_at": NOON + 60,
    "waited_ms": 0,
}


def said(vendor: str, error: BudgetError) -> Any:
    answer = refusal(vendor, error)
    assert answer.status == (400 if isinstance(error, UnreadableRequestError) else 402)
    assert answer.headers["x-should-retry"] == "false"
    return answer.body["error"]


def test_each_format_refuses_in_its_vendors_form() -> None:
    forms = {CHAT: "openai", MESSAGES: "anthropic", GENERATE: "google"}
    for path, vendor in forms.items():
        answer: Refusal = refusal(format_at(path).vendor, EXCEEDED)
        assert answer == refusal(vendor, EXCEEDED)


def test_openais_refusal_is_an_insufficient_quota() -> None:
    error = said("openai", EXCEEDED)
    assert error == {
        "message": str(EXCEEDED),
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
        "budget": FIGURES,
    }


def test_anthropics_refusal_is_a_billing_error() -> None:
    assert refusal("anthropic", EXCEEDED).body["type"] == "error"
    assert said("anthropic", EXCEEDED) == {
        "type": "billing_error",
        "message": str(EXCEEDED),
        "code": "budget_exceeded",
        "budget": FIGURES,
    }


def test_googles_refusal_has_a_status_and_details() -> None:
    error = said("google", EXCEEDED)
    assert (error["code"], error["status"]) == (402, "RESOURCE_EXHAUSTED")
    (detail,) = error["details"]
    assert detail["reason"] == "BUDGET_EXCEEDED"
    assert detail["metadata"] == {name: str(value) for name, value in FIGURES.items()}


def test_the_headers_say_what_is_left_and_when_it_resets() -> None:
    headers = refusal("openai", EXCEEDED).headers
    assert headers["RateLimit-Policy"] == '"tokens per day";q=100;w=86400'
    assert headers["RateLimit"] == '"tokens per day";r=50;t=60'


@pytest.mark.parametrize(
    ("window", "resets_at", "now", "policy", "left"),
    [
        ("run", None, NOON, ";q=9", ";r=9"),
        ("hour", NOON + 5, 0, ";q=9;w=3600", ";r=9"),
        ("day@5", NOON - 5, NOON, ";q=9;w=86400", ";r=9;t=0"),
        ("week@23", NOON + 5, NOON, ";q=9;w=604800", ";r=9;t=5"),
        ("month", NOON + 5, NOON, ";q=9", ";r=9;t=5"),
        ("rolling 600/10", NOON + 5, NOON, ";q=9;w=600", ";r=9;t=5"),
    ],
)
def test_what_is_not_known_of_a_window_is_left_out(
    window: str, resets_at: int | None, now: int, policy: str, left: str
) -> None:
    error = BudgetExceededError("a", "calls", window, 10, 9, 0, 0, resets_at, now)
    name = f'"calls per {window}"'
    assert rate_limit_headers(error) == {
        "RateLimit-Policy": name + policy,
        "RateLimit": name + left,
    }


def test_headers_are_valid_for_any_name_and_amount() -> None:
    most = (1 << 53) - 1
    error = BudgetExceededError("a", 'Bücher "x"\r\n\\', "run", 1, most, 0, 0, None)
    policy = rate_limit_headers(error)["RateLimit-Policy"]
    assert policy == '"B?cher \\"x\\"??\\\\ per run";q=999999999999999'


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UnpricedError("acme", "gpt-9"), "unknown_price", "no price is known for gpt-9"),
        (UnknownAccountError("acme/x"), "unknown_account", "no account 'acme/x'"),
        (LedgerUnavailableError("/secret/db: locked"), "ledger_unavailable", "402, not 503"),
        (TooLittleLeftError("the budget allows 5"), "budget_exceeded", "the budget allows 5"),
        (UnreadableRequestError("no JSON"), "unreadable_request", "no JSON"),
        (LedgerFullError("/secret/db"), "budget_error", "was not sent"),
        (StoreError("/secret/db"), "budget_error", "was not sent"),
        (DeadlineExceeded(Deadline.from_now(0)), "deadline_exceeded", "deadline has passed"),
    ],
)
def test_each_reason_has_its_code_and_its_text(error: BudgetError, code: str, text: str) -> None:
    for vendor in ("openai", "anthropic"):
        found = said(vendor, error)
        is_openais = (vendor, code) == ("openai", "budget_exceeded")
        assert found["code"] == ("insufficient_quota" if is_openais else code)
        assert text in found["message"]
        assert "secret" not in found["message"]
        assert "budget" not in found
    google = said("google", error)
    assert google["details"][0]["reason"] == code.upper()
    is_spent = code == "budget_exceeded"
    assert google["status"] == ("RESOURCE_EXHAUSTED" if is_spent else "FAILED_PRECONDITION")
    assert said("openai", error)["type"] == ("insufficient_quota" if is_spent else "budget_error")
