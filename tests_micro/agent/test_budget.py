"""What a run is allowed: checked when it is built, and never changed."""

from budget_core import Budget, Envelope
from tests_micro.support import NO_LIMITS, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COUNTS = (
    "max_turns",
    "max_tokens",
    "max_tokens_per_turn",
    "max_tool_calls",
    "max_reflections",
    "max_nano_usd",
    "max_context_tokens",
)
nan, inf = float("nan"), float("inf")
NO_SECONDS: "tuple[Any, ...]" = (-1, -0.001, nan, -inf, True, False, "6", [6])
NO_SHARES: "tuple[Any, ...]" = (-0.1, 1.1, 2, nan, inf, True, False, "0.1", [0.1])


def test_every_count_is_checked_by_its_name() -> None:
    for name in COUNTS:
        for bad in NO_LIMITS:
            assert name in str(raises(ValueError, Budget, **{name: bad})), (name, bad)
        for good in (None, 0, 1, (1 << 60) - 1):
            limits: "dict[str, Any]" = {name: good}
            assert getattr(Budget(**limits), name) == good


def test_the_timeout_is_a_number_of_seconds() -> None:
    for bad in NO_SECONDS:
        assert "timeout" in str(raises(ValueError, Budget, timeout=bad)), bad
    for good in (None, 0, 0.0, 0.5, 120):
        assert Budget(timeout=good).timeout == good


def test_an_infinite_timeout_is_none() -> None:
    budget = Budget(timeout=inf)
    assert budget.timeout is None
    assert budget.is_unlimited()
    assert budget.__dict__ == Budget().__dict__


def test_what_is_kept_is_a_share() -> None:
    for bad in NO_SHARES:
        assert "last_call" in str(raises(ValueError, Budget, last_call=bad)), bad
    for good in (None, 0, 0.0, 0.25, 1):
        assert Budget(last_call=good).last_call == good


def test_the_calls_of_single_tools_are_checked_by_name() -> None:
    for bad in NO_LIMITS:
        assert "search" in str(raises(ValueError, Budget, max_calls={"search": bad})), bad
    for bad in (1, "search", [("search", 1)], True):
        assert "max_calls" in str(raises(ValueError, Budget, max_calls=bad)), bad
    for bad in ("", 1, None, b"search"):
        assert "max_calls" in str(raises(ValueError, Budget, max_calls={bad: 1})), bad
    assert Budget(max_calls={"search": 0, "read": 3}).max_calls == {"search": 0, "read": 3}


def test_the_callers_dict_is_copied() -> None:
    mine = {"search": 1}
    budget = Budget(max_calls=mine)
    copy = budget.replace()
    mine["search"] = 9
    copy.max_calls["search"] = 7
    assert budget.max_calls == {"search": 1}
    assert Budget().max_calls == Budget(max_calls={}).max_calls == {}
    assert Budget().max_calls is not Budget().max_calls


def test_the_first_four_are_those_of_the_seed_in_its_order() -> None:
    budget = Budget(5, 1000, 200, 2.5)
    named = Budget(max_turns=5, max_tokens=1000, max_tokens_per_turn=200, timeout=2.5)
    assert budget.__dict__ == named.__dict__


def test_replace_gives_a_checked_copy() -> None:
    budget = Budget(max_turns=5, max_tokens=100)
    other = budget.replace(max_turns=0)
    assert (other.max_turns, other.max_tokens) == (0, 100)
    assert budget.max_turns == 5
    assert "max_turns" in str(raises(ValueError, budget.replace, max_turns=-1))
    raises(TypeError, budget.replace, max_turn=1)


def test_only_turns_tokens_time_and_money_end_a_run() -> None:
    for name in ("max_turns", "max_tokens", "timeout", "max_nano_usd"):
        for value in (0, 1):
            limits: "dict[str, Any]" = {name: value}
            assert not Budget(**limits).is_unlimited(), limits
    assert Budget().is_unlimited()
    assert Budget(max_tool_calls=0, max_tokens_per_turn=1, max_reflections=0).is_unlimited()


def test_a_share_of_a_cap_is_kept_and_one_is_always_left() -> None:
    for last_call, cap, kept in (
        (0.1, 1000, 100),
        (0.1, 999, 99),
        (0.1, 9, 0),
        (0.5, 3, 1),
        (0.29, 100, 29),
        (1, 1000, 999),
        (1.0, 1, 0),
        (0.9, 1, 0),
        (0.1, (1 << 60) - 1, ((1 << 60) - 1) // 10),
        (0.1, 0, 0),
        (0.1, None, 0),
        (0, 1000, 0),
        (None, 1000, 0),
    ):
        envelope = Envelope(Budget(max_tokens=cap, last_call=last_call))
        assert envelope.tokens.kept == kept, (last_call, cap)


def test_one_turn_is_kept_unless_it_were_the_only_one() -> None:
    for turns, kept in ((None, 0), (0, 0), (1, 0), (2, 1), (50, 1)):
        assert Envelope(Budget(max_turns=turns)).turns.kept == kept
        assert Envelope(Budget(max_turns=turns, last_call=0)).turns.kept == kept
        assert Envelope(Budget(max_turns=turns, last_call=None)).turns.kept == 0
