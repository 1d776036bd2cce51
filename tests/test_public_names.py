"""What can be imported, from where, and what that costs."""

import inspect
import subprocess
import sys
import tomllib
from types import ModuleType

import jedi
import pytest
from public_names import core_stub, cpython_stub

import budget_core
import budget_cpython
from budget_core import (
    _names,
    config,
    daily_allowance,
    daily_tracker,
    deadline,
    deadline_token,
    tracker,
    turn_budget,
    turn_records,
    turn_state,
)
from budget_core.agent import budget, envelope, exoclaw, operative, tool, wind_down
from budget_core.ledger import memory
from budget_cpython import executor
from tests.paths import ROOT

UPGRADED = {
    "Budget": budget.Budget,
    "CitationAccumulator": turn_records.CitationAccumulator,
    "DailyAllowance": daily_allowance.DailyAllowance,
    "DailyBudgetConfig": config.DailyBudgetConfig,
    "DailyBudgetTracker": daily_tracker.DailyBudgetTracker,
    "Deadline": deadline.Deadline,
    "DeadlineToken": deadline_token.DeadlineToken,
    "Envelope": envelope.Envelope,
    "ExoclawBudget": exoclaw.ExoclawBudget,
    "Ledger": memory.Ledger,
    "Operative": operative.Operative,
    "Tool": tool.Tool,
    "ToolTraceEntry": turn_records.ToolTraceEntry,
    "TurnBudget": turn_budget.TurnBudget,
    "TurnBudgetConfig": config.TurnBudgetConfig,
    "TurnBudgetTracker": tracker.TurnBudgetTracker,
    "TurnRuntimeState": turn_state.TurnRuntimeState,
    "WindDown": wind_down.WindDown,
}
# By the same name, for the same use, not built on the core's.
OWN = ("FileBudgetStore", "HttpLedger", "LeasedLedger", "WALL")
CORE_NAMES = sorted(name for line in _names.PUBLIC.splitlines() for name in line.split(" ")[1:])


def test_every_public_name_of_the_core_is_public_here() -> None:
    assert set(CORE_NAMES) <= set(budget_cpython.__all__)


@pytest.mark.parametrize("package", ["budget_core", "budget_cpython"])
def test_type_checkers_read_the_same_names(package: str) -> None:
    made = {"budget_core": core_stub, "budget_cpython": cpython_stub}[package]()
    stub = (ROOT / package / "__init__.pyi").read_text()
    assert stub == made, "run: python scripts/public_names.py"


@pytest.mark.parametrize("package", [budget_core, budget_cpython])
def test_an_editor_completes_every_public_name(package: ModuleType) -> None:
    names = package.__all__ if package is budget_cpython else CORE_NAMES
    source = f"import {package.__name__}\n{package.__name__}."
    script = jedi.Script(source, project=jedi.Project(ROOT))
    assert set(names) <= {found.name for found in script.complete()}


def test_every_method_of_a_public_class_has_a_docstring() -> None:
    bare = [
        f"{name}.{method}"
        for name in budget_cpython.__all__
        if inspect.isclass(owner := getattr(budget_cpython, name))
        for method, value in inspect.getmembers(owner)
        if method[0] != "_" and callable(value) and not inspect.getdoc(value)
    ]
    assert not bare


def test_an_editor_shows_a_docstring_for_every_public_name() -> None:
    names = budget_cpython.__all__
    source = "from budget_cpython import *\n" + "\n".join(names)
    script = jedi.Script(source, project=jedi.Project(ROOT))
    for line, name in enumerate(names, 2):
        (shown,) = script.help(line, 1)
        docstring = shown.docstring(raw=True)
        first = docstring.split("\n\n")[0]
        assert len(docstring.split()) >= 7, (name, docstring)
        assert first[0].isupper() or first.startswith("exoclaw"), name
        assert first.endswith("."), (name, first)
        assert "the core's" not in docstring.lower(), name
        assert not docstring.startswith("The same"), name
        if name != "WALL":
            assert docstring == inspect.getdoc(getattr(budget_cpython, name)), name


@pytest.mark.parametrize("name", CORE_NAMES)
def test_a_name_is_the_cores_unless_it_is_upgraded(name: str) -> None:
    ours = getattr(budget_cpython, name)
    if name in OWN:
        assert ours is not getattr(budget_core, name)
    elif name in UPGRADED:
        assert ours is not UPGRADED[name]
        assert issubclass(ours, UPGRADED[name])
    else:
        assert ours is getattr(budget_core, name)


def test_a_star_import_and_dir_have_them_all() -> None:
    there: dict[str, object] = {}
    exec("from budget_cpython import *", there)  # noqa: S102 - the statement is under test
    assert set(budget_cpython.__all__) <= set(there)
    assert set(budget_cpython.__all__) <= set(dir(budget_cpython))


def test_the_package_has_the_version_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert budget_cpython.__version__ == project["version"]


@pytest.mark.parametrize("package", [budget_core, budget_cpython])
def test_a_name_that_is_not_there_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


def loaded_by(program: str) -> set[str]:
    """Return the modules that a fresh interpreter has after a program."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_but_the_core() -> None:
    ours = {name for name in loaded_by("import budget_cpython") if name.startswith("budget_")}
    assert ours == {"budget_core", "budget_cpython"}


def test_only_what_awaits_or_runs_tools_needs_what_is_slow_to_import() -> None:
    slow = {"ChatClient", "tls_context", "Operative", "ExoclawBudget", *executor.__all__}
    slow |= {"Event", "OperativeResult", "Request", "RunHandle", "RunStoppedError", "tool"}
    slow |= {"HttpLedger", "LeasedLedger", "SqliteLedger", "open_async_ledger", "open_ledger"}
    slow |= {"AsyncLedgerProtocol", "LedgerProtocol", "parse_budget", "parse_limits"}
    slow |= {"BudgetBlock", "budget", "budgeted", "instrument", "uninstrument"}
    names = sorted({*budget_cpython.__all__} - slow)
    loaded = loaded_by(f"from budget_cpython import {', '.join(names)}")
    assert not {"asyncio", "ssl", "typing"} & loaded


def test_an_operative_loads_only_what_every_run_needs() -> None:
    program = "from budget_core import Operative, Tool; Tool('look', 'Looks.', print)"
    loaded = loaded_by(program)
    assert "budget_core.agent.run" in loaded
    for module in ("deadline", "deadline_token", "turn_budget", "agent.exoclaw",
                   "agent.middleware", "agent.no_progress", "agent.stop_condition"):  # fmt: skip
        assert f"budget_core.{module}" not in loaded
