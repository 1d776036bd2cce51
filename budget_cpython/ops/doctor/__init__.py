"""Examine a ledger, the machine and what is installed; change nothing."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.finding import Finding, fails, not_run
from budget_cpython.ledger.opening import engine_of
from budget_cpython.ops.doctor.engine import TIMEOUT_S, Check
from budget_cpython.ops.doctor.machine import check_keys, check_prices, check_versions


def examine(
    url: str,
    now: int,
    options: dict[str, Any],
    keys: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[tuple[str, Finding]]:
    """Check the ledger at a URL and this machine; yield the name and the finding of each check.

    `options` are those that the ledger is opened with, `now` is in Unix seconds, and `keys` is a
    file of keys. An engine has `timeout_s` for each answer; without one its other checks are not
    run.
    """
    bad = False
    for name, check in _engine_checks(url, now, options, timeout_s):
        finding = not_run("because the check `engine` failed") if bad else _run(check)
        bad = bad or (name == "engine" and finding.fix is not None)
        yield name, finding
    yield "keys", _run(lambda: check_keys(keys))
    yield "prices", _run(lambda: check_prices(now))
    yield "versions", _run(check_versions)


def _engine_checks(url: str, now: int, options: dict[str, Any], timeout_s: float) -> list[Check]:
    """Return the checks of the engine of a URL; what that needs is loaded only then."""
    kind = engine_of(url)
    if not kind:
        raise ValueError(
            "a ledger's URL begins with sqlite:, redis://, rediss://, redis+cluster://, unix://, "
            "postgresql://, http:// or https://"
        )
    try:
        module = import_module(f"budget_cpython.ops.doctor.{kind}")
        found: list[Check] = getattr(module, f"{kind}_checks")(url, now, options, timeout_s)
    except ModuleNotFoundError as error:
        said = fails(f"{error}", f"pip install 'microbudget[{kind}]'")
        return [("engine", lambda: said)]
    return found


def _run(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except (BudgetError, OSError, ValueError) as error:
        return fails(str(error), "correct what it says, and repeat the command")
