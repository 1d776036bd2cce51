"""What is passed by mistake on a server is refused by name."""

from typing import Any

import openai
import pytest

from budget_cpython import (
    BoundedToolExecutor,
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    Operative,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from tests_micro.script import Script

WRONG = [5, 0, "x", b"x", [1], object(), True]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_trackers_configuration_is_one(wrong: Any) -> None:
    with pytest.raises(ValueError, match="config must be a DailyBudgetConfig, not "):
        DailyBudgetTracker(wrong)
    with pytest.raises(ValueError, match="config must be a TurnBudgetConfig, not "):
        TurnBudgetTracker(wrong)


def test_configurations_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="config must be a DailyBudgetConfig, not TurnBudget"):
        DailyBudgetTracker(TurnBudgetConfig())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="config must be a TurnBudgetConfig, not DailyBudget"):
        TurnBudgetTracker(DailyBudgetConfig())  # type: ignore[arg-type]


def test_an_sdks_client_is_to_be_wrapped_and_shows_no_key() -> None:
    for client in (openai.AsyncOpenAI(api_key="sk-secret"), openai.OpenAI(api_key="sk-secret")):
        given: Any = client
        for make in (
            lambda given=given: BudgetWrapper(given, TurnBudgetTracker()),
            lambda given=given: Operative(given),
        ):
            with pytest.raises(
                ValueError, match=r"not \w*OpenAI: docs/operatives\.md shows"
            ) as caught:
                make()
            assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("path", [None, 5, 0, b"x", [1], object()])
def test_a_store_needs_a_path(path: Any) -> None:
    with pytest.raises(ValueError, match="path must name a file, not "):
        FileBudgetStore(path)


@pytest.mark.parametrize("executor", [5, "x", object()])
def test_an_operatives_executor_is_one(executor: Any) -> None:
    with pytest.raises(ValueError, match="executor must be a BoundedToolExecutor, not "):
        Operative(Script(1), executor=executor)


@pytest.mark.parametrize("caps", [5, "search", [("search", 5)]])
def test_caps_are_a_dict(caps: Any) -> None:
    with pytest.raises(ValueError, match="caps must be a dict of seconds by the names of tools"):
        BoundedToolExecutor(caps=caps)
