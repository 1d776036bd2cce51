"""Turn telemetry on and off."""

from budget_core.checks import check_count
from budget_cpython.context.process_state import LOCK, SWITCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ACCOUNTS = 100


def enable_telemetry(meter_provider: "Any" = None, *, accounts: int = ACCOUNTS) -> None:
    """Export the calls and budgets of this process as OpenTelemetry's metrics and span events.

    `meter_provider` is by default the global one. At most `accounts` of those that calls draw on
    are shown, those nearest to their end. docs/telemetry.md lists the metrics. Raises `ImportError`
    without `opentelemetry-api`, `ValueError` for a malformed number.
    """
    check_count("accounts", accounts)
    try:
        from budget_cpython.telemetry.observing import observe
        from budget_cpython.telemetry.opentelemetry import OpenTelemetryObserver
    except ModuleNotFoundError as error:
        raise ImportError(f"{error}: pip install 'microbudget[otel]'") from error
    with LOCK:
        disable_telemetry()
        known = SWITCHES.telemetry
        if known is None or known.provider is not meter_provider:
            known = SWITCHES.telemetry = OpenTelemetryObserver(meter_provider, accounts)
        known.is_on, known.accounts = True, accounts
        observe(known)


def disable_telemetry() -> None:
    """Undo `enable_telemetry`: from now on nothing more is recorded."""
    with LOCK:
        if SWITCHES.telemetry is not None:
            from budget_cpython.telemetry.observing import unobserve

            unobserve(SWITCHES.telemetry)
            SWITCHES.telemetry.is_on = False
