"""What is passed to a constructor by mistake is refused by name, in words that help."""

from budget_core import (
    Budget,
    BudgetWrapper,
    ChatClient,
    DailyBudgetConfig,
    DailyBudgetTracker,
    Envelope,
    ExoclawBudget,
    FileBudgetStore,
    HttpLedger,
    Ledger,
    Operative,
    TurnBudgetConfig,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)
from budget_core.agent.stop_condition import AllOf, AnyOf, MaxTokens
from budget_core.composite_policy import CompositePolicy
from tests_micro.script import Script
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

URL = "http://127.0.0.1:9/v1"


class Completions:
    async def create(self, **request: "Any") -> None:
        """Answer nothing."""


class Chat:
    completions = Completions()


class Sdk:
    """An SDK's client."""

    chat = Chat()

    def __repr__(self) -> str:
        return "Sdk(api_key='sk-secret')"


class Other:
    """Something else."""


WRONG: "list[Any]" = [5, 0, "x", b"x", [1], Other(), Sdk(), True]


def check_refused(
    name: str, words: str, make: "Callable[[Any], object]", values: "list[Any]"
) -> None:
    """Assert that each value is a `ValueError` that names the argument and what it must be."""
    for value in values:
        text = str(raises(ValueError, make, value))
        assert text.startswith(name + " must "), (text, value)
        assert words in text, (text, value)


def test_a_trackers_configuration_is_one() -> None:
    check_refused("config", "a DailyBudgetConfig", DailyBudgetTracker, WRONG + [TurnBudgetConfig()])
    check_refused("config", "a TurnBudgetConfig", TurnBudgetTracker, WRONG + [DailyBudgetConfig()])


def test_a_days_clock_is_a_function_and_its_store_keeps_states() -> None:
    for clock in [value for value in WRONG if not callable(value)]:
        raises(TypeError, DailyBudgetTracker, clock=clock)
    stores = "FileBudgetStore(path)"
    check_refused("store", stores, lambda store: DailyBudgetTracker(store=store), WRONG)


def test_a_policy_needs_a_turns_tracker() -> None:
    wrong = WRONG + [None, DailyBudgetTracker()]
    check_refused("tracker", "a TurnBudgetTracker", TurnBudgetPolicy, wrong)


def test_a_provider_answers_and_an_sdks_client_is_to_be_wrapped() -> None:
    tracker = TurnBudgetTracker()
    makes: list[tuple[str, Any]] = [
        ("inner", lambda inner: BudgetWrapper(inner, tracker)),
        ("provider", Operative),
        ("provider", lambda provider: ExoclawBudget(provider, Budget())),
    ]
    for name, make in makes:
        check_refused(name, "docs/operatives.md shows how to wrap", make, WRONG + [None])
        text = str(raises(ValueError, make, Sdk()))
        assert "ChatClient(base_url, model, api_key), not Sdk" in text
        assert "sk-secret" not in text


def test_a_wrapper_and_a_run_need_budgets_of_their_kind() -> None:
    script = Script(1)
    check_refused("tracker", "a BudgetTracker", lambda one: BudgetWrapper(script, one), WRONG)
    check_refused("budget", "a Budget", Envelope.open, WRONG + [None])
    check_refused("budget", "a Budget", lambda budget: Operative(script, budget=budget), WRONG)


def test_what_a_run_is_given_beside_that_is_of_its_kind() -> None:
    wrong = [5, Other(), Sdk(), len]
    for name, words in (
        ("stop_when", "a StopCondition"),
        ("wind_down", "a WindDown"),
        ("prices", "a dict of Prices by model"),
        ("middleware", "a list of Middleware"),
    ):

        def make(value: "Any", name: str = name) -> object:
            return Operative(Script(1), **{name: value})

        check_refused(name, words, make, wrong)
    for kind in (AllOf, AnyOf):
        check_refused("conditions", "a StopCondition", kind, wrong + [None, [MaxTokens(5)]])
    policies = wrong + [None, [TurnBudgetPolicy(TurnBudgetTracker())]]
    check_refused("policies", "should_continue", CompositePolicy, policies)


def test_a_wrapper_needs_prices_by_model() -> None:
    def make(prices: "Any") -> object:
        return BudgetWrapper(Script(1), ledger=Ledger(), account="org", prices=prices)

    check_refused("prices", "a dict of Prices by model", make, [5, "x", [1], Sdk()])


def test_a_client_needs_a_url_a_model_and_bounds() -> None:
    wrong = [value for value in WRONG if not isinstance(value, str)]
    check_refused("base_url", "a string", lambda url: ChatClient(url, "m"), wrong + [None, ""])
    check_refused("model", "a string", lambda model: ChatClient(URL, model), wrong + [None, ""])
    check_refused("url", "a string", HttpLedger, wrong + [None, ""])
    for make in (
        lambda **more: ChatClient(URL, "m", **more),
        lambda **more: HttpLedger(URL, **more),
    ):
        for name in ("timeout_s", "max_response_bytes"):
            for value in (None, "x", 0, -1, [1], Sdk()):
                text = str(raises(ValueError, make, **{name: value}))
                assert text.startswith(name + " must be "), text


def test_a_key_that_is_not_one_is_refused_and_not_shown() -> None:
    for key in (b"sk-secret", ["sk-secret"], 5, Sdk(), "sk secret"):
        text = str(raises(ValueError, ChatClient, URL, "m", key))
        assert "key must be visible ASCII characters" in text
        assert "secret" not in text


def test_a_store_needs_a_path() -> None:
    check_refused("path", "", FileBudgetStore, [5, 0, b"x", [1], Other(), True, None, ""])
