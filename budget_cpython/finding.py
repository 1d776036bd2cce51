"""The result of a check: what it found, and what to do about it."""

from dataclasses import dataclass
from enum import Enum


class Result(Enum):
    """How a check ended; `NOT_RUN` also where there is nothing to check."""

    OK = "ok"
    WARNING = "warning"
    FAILS = "fails"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Finding:
    """The result of a check, what it found, and what to do about it."""

    result: Result
    found: str
    fix: str | None = None

    def as_text(self, check: str) -> str:
        """Return a line with the result, and one with the fix, if any."""
        line = f"{self.result.value:7}  {check:10}  {' '.join(self.found.split())}"
        return line if self.fix is None else f"{line}\n{'':9}fix: {self.fix}"

    def as_json(self, check: str) -> dict[str, str | None]:
        """Return the check's name and the fields, as JSON has them."""
        return {
            "check": check,
            "result": self.result.value,
            "found": self.found,
            "fix": self.fix,
        }


def ok(found: str) -> Finding:
    """Return that all is well."""
    return Finding(Result.OK, found)


def warning(found: str, fix: str) -> Finding:
    """Return that it works, but not as well as it could, or not for long."""
    return Finding(Result.WARNING, found, fix)


def fails(found: str, fix: str) -> Finding:
    """Return that it does not work."""
    return Finding(Result.FAILS, found, fix)


def not_run(found: str) -> Finding:
    """Return why it could not be checked."""
    return Finding(Result.NOT_RUN, found)
