"""The checks of a ledger behind `microbudget serve`."""

from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from budget_cpython.finding import Finding, fails, not_run, ok
from budget_cpython.ops.doctor.engine import Check, answers, compare_clocks


def http_checks(url: str, now: int, options: dict[str, Any], timeout_s: float) -> list[Check]:
    """Return the checks of the service at a URL, with the key in `options`."""
    fix = "start `microbudget serve` there, or correct --ledger and --ledger-key"
    there = "run `microbudget doctor` where the service runs, with its engine"
    return [
        ("engine", answers(url, {**options, "timeout_s": timeout_s}, lambda: "the service", fix)),
        ("clock", lambda: _check_clock(url, now, timeout_s)),
        ("readiness", lambda: _check_ready(url, timeout_s)),
        ("durability", lambda: not_run(f"{there} as --ledger")),
    ]


def _check_clock(url: str, now: int, timeout_s: float) -> Finding:
    _, date = _get(url, "/healthz", timeout_s)
    if not date:
        return not_run("the service does not say its time")
    theirs = parsedate_to_datetime(date).timestamp()
    return compare_clocks(theirs, now, "the service's")


def _check_ready(url: str, timeout_s: float) -> Finding:
    status, _ = _get(url, "/readyz", timeout_s)
    if status == 200:
        return ok("its engine answers the service")
    return fails("the engine does not answer the service", "look at the service's own log")


def _get(url: str, path: str, timeout_s: float) -> tuple[int, str]:
    """Return the status of an answer, and its date."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path.rstrip("/") + path)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.getheader("Date") or ""
    except HTTPException as error:
        raise OSError(f"the service: {type(error).__name__}") from error
    finally:
        connection.close()
