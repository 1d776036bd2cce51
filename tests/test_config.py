"""The configurations as frozen dataclasses, side by side with the core's."""

import asyncio
import copy
import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import budget_core
import budget_cpython
from budget_core import config as core
from budget_cpython import (
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    TurnBudgetConfig,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)
from tests.paths import ROOT
from tests_micro.script import Script

Config = Any
PAIRS = [(TurnBudgetConfig, core.TurnBudgetConfig), (DailyBudgetConfig, core.DailyBudgetConfig)]
CHANGES: dict[str, Any] = {
    "iteration_budget": 7,
    "token_budget": None,
    "daily_budget": 9,
    "primary_models": ["large"],
    "warning_thresholds": [0.25],
    "enforcement": "warn",
    "fallback_model": "small",
    "reset_hour_utc": 5,
    "warning_template": "w",
    "cutoff_template": "c",
    "fallback_template": "f",
    "tool_strip_threshold": 0.9,
    "tool_strip_disallow": ["exec"],
    "tool_strip_template": "s",
    "cached_token_weight": 0.5,
    "model_weights": {"large": 2.5},
    "last_call": 0.1,
}

both = pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["turn", "daily"])


def all_changed(kind: Config) -> dict[str, Any]:
    return {name: CHANGES[name] for name in inspect.signature(kind).parameters}


@both
def test_the_fields_are_the_cores_parameters_with_their_defaults(
    ours: Config, theirs: Config
) -> None:
    parameters = inspect.signature(theirs).parameters
    fields = dataclasses.fields(ours)
    assert [(field.name, field.default, field.type) for field in fields] == [
        (name, parameter.default, parameter.annotation) for name, parameter in parameters.items()
    ]
    assert inspect.signature(ours) == inspect.signature(theirs)


@both
def test_fields_are_known_of_a_class_and_of_an_instance(ours: Config, theirs: Config) -> None:
    config = ours()
    assert dataclasses.fields(ours) == dataclasses.fields(config)
    assert dataclasses.is_dataclass(config)
    assert dataclasses.is_dataclass(ours)
    assert not dataclasses.is_dataclass(theirs)


@both
@pytest.mark.parametrize("changed", [False, True])
def test_those_with_the_same_fields_are_equal_and_have_the_cores_values(
    ours: Config, theirs: Config, changed: bool
) -> None:
    changes = all_changed(ours) if changed else {}
    assert ours(**changes) == ours(**changes)
    assert hash(ours(**changes)) == hash(ours(**changes))
    assert vars(ours(**changes)) == vars(theirs(**changes))


@both
def test_any_field_that_differs_makes_a_difference(ours: Config, theirs: Config) -> None:
    for name, value in all_changed(ours).items():
        changed = dataclasses.replace(ours(), **{name: value})
        assert changed != ours()
        assert vars(changed) == vars(theirs(**{name: value}))


@both
def test_it_is_one_of_the_cores(ours: Config, theirs: Config) -> None:
    assert isinstance(ours(), theirs)
    assert ours.__name__ == theirs.__name__
    assert ours.__doc__ == theirs.__doc__


@both
def test_asdict_gives_the_arguments_of_an_equal_config(ours: Config, theirs: Config) -> None:
    config = ours(**all_changed(ours))
    fields = dataclasses.asdict(config)
    assert list(fields) == list(inspect.signature(theirs).parameters)
    assert ours(**fields) == config
    assert len(dataclasses.astuple(config)) == len(fields)


@both
def test_replace_is_checked_and_leaves_the_original(ours: Config, theirs: Config) -> None:
    config = ours()
    changed = dataclasses.replace(config, enforcement="observe")
    assert type(changed) is ours
    assert changed.enforcement == "observe"
    assert config == ours()
    with pytest.raises(ValueError, match="enforcement must be"):
        dataclasses.replace(config, enforcement="stop")
    with pytest.raises(TypeError):
        dataclasses.replace(config, no_such_field=1)


@both
def test_nothing_can_be_set_or_deleted(ours: Config, theirs: Config) -> None:
    config = ours()
    for name in [*CHANGES, "no_such_field", "__dict__"]:
        with pytest.raises(FrozenInstanceError):
            setattr(config, name, CHANGES.get(name))
        with pytest.raises(FrozenInstanceError):
            delattr(config, name)
    assert config == ours()


@both
def test_it_refuses_what_the_cores_refuses_in_the_same_words(ours: Config, theirs: Config) -> None:
    for name in inspect.signature(ours).parameters:
        for value in (-1, float("nan"), True, "", "x", [None], {"m": -1}, object):
            said = []
            for kind in (ours, theirs):
                try:
                    said.append(str(vars(kind(**{name: value}))))
                except ValueError as error:
                    said.append(str(error))
            assert said[0] == said[1], name


@both
def test_its_repr_has_the_fields_in_order_and_builds_it_again(ours: Config, theirs: Config) -> None:
    config = ours(**all_changed(ours))
    places = [repr(config).index(f"{field.name}=") for field in dataclasses.fields(ours)]
    assert places == sorted(places)
    assert eval(repr(config), vars(budget_cpython)) == config  # noqa: S307 - our own repr


@both
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_equal_and_frozen(
    ours: Config, theirs: Config, protocol: int
) -> None:
    config = ours(**all_changed(ours))
    pickled = pickle.loads(pickle.dumps(config, protocol))  # noqa: S301 - our own
    for twin in (pickled, copy.copy(config), copy.deepcopy(config)):
        assert type(twin) is ours
        assert twin == config
        assert hash(twin) == hash(config)
        with pytest.raises(FrozenInstanceError):
            twin.enforcement = "observe"


def test_the_callers_weights_are_not_shared() -> None:
    weights = {"large": 2.0}
    config = TurnBudgetConfig(model_weights=weights)
    weights["large"] = 0.0
    assert config.model_weights == {"large": 2.0}


def test_a_dataclass_may_derive_from_one_and_is_checked_too() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(TurnBudgetConfig):
        team: str = ""

    mine: Any = Mine
    assert mine(token_budget=5, team="a").token_budget == 5
    assert mine(team="a").model_weights == {}
    assert [field.name for field in dataclasses.fields(mine)][-1] == "team"
    with pytest.raises(ValueError, match="token_budget must be"):
        mine(token_budget=-1)


@both
def test_patterns_can_name_its_fields(ours: Config, theirs: Config) -> None:
    assert ours.__match_args__ == tuple(inspect.signature(theirs).parameters)


@pytest.mark.parametrize("package", [budget_core, budget_cpython])
@pytest.mark.parametrize("trackers", [budget_core, budget_cpython])
def test_either_packages_config_works_wherever_the_others_does(package: Any, trackers: Any) -> None:
    turn = trackers.TurnBudgetTracker(package.TurnBudgetConfig(token_budget=10))
    config = package.DailyBudgetConfig(enforcement="cutoff")
    daily = trackers.DailyBudgetTracker(config, lambda: 20_000 * 86_400)
    policy = TurnBudgetPolicy(turn)
    wrapper = BudgetWrapper(BudgetWrapper(Script(10), daily), turn)

    async def talk() -> list[Any]:
        await policy.should_continue(0, [])
        return [(await wrapper.chat([{"role": "user", "content": "?"}])).cut_off_by for _ in "ab"]

    assert asyncio.run(talk()) == [None, "turn"]
    assert daily.total_tokens == 10


def test_trackers_without_a_config_have_ours() -> None:
    assert dataclasses.is_dataclass(TurnBudgetTracker().config)
    assert dataclasses.is_dataclass(DailyBudgetTracker().config)


TYPED = """\
import dataclasses
from budget_cpython import DailyBudgetConfig, TurnBudgetConfig, TurnBudgetTracker
from typing import assert_type

turn = dataclasses.replace(TurnBudgetConfig(token_budget=5), token_budget=6)
assert_type(turn, TurnBudgetConfig)
assert_type(turn.token_budget, int | None)
assert_type(TurnBudgetTracker(turn).total_tokens, int)
dataclasses.asdict(DailyBudgetConfig()), dataclasses.fields(DailyBudgetConfig)
TurnBudgetConfig(tokens=5)  # type: ignore[call-arg]
TurnBudgetConfig(token_budget="5")  # type: ignore[arg-type]
import budget_cpython
budget_cpython.NoSuchName  # type: ignore[attr-defined]
"""


def test_type_checkers_see_the_constructor_and_what_dataclasses_makes_of_it(
    tmp_path: Path,
) -> None:
    program = tmp_path / "typed.py"
    program.write_text(TYPED)
    cache = ROOT / ".mypy_cache/typed"
    options = ["--strict", "--follow-imports=silent", f"--config-file={os.devnull}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={cache}", str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
