"""The result of a check, and how a check runs one of the folder `programs` on the board."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from budget_cpython.board.device import Device

_PROGRAMS = Path(__file__).with_name("programs")
_RUN = """
import json
try:
    print(json.dumps(_look()))
except ImportError as error:
    print(json.dumps({"absent": str(error)}))
"""


class Result(Enum):
    """How a check ended; `NOT_RUN` also where the board does not have the part."""

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
    """Return that the board works, but not as well as it could, or not for long."""
    return Finding(Result.WARNING, found, fix)


def fails(found: str, fix: str) -> Finding:
    """Return that the board does not work."""
    return Finding(Result.FAILS, found, fix)


class EndedError(Exception):
    """A check ended with its finding: the board cannot be asked for more."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.found)
        self.finding = finding


def program_source(name: str) -> str:
    """Return a program of the folder `programs`."""
    return (_PROGRAMS / f"{name}.py").read_text("utf-8")


def program_text(name: str) -> str:
    """Return a program of the folder `programs`, which calls its `_look` and prints the result."""
    return program_source(name) + _RUN


def probe(device: Device, program: str, silence_s: float = 0) -> Any:
    """Run a program of the folder `programs` on a board; return its result, read from JSON.

    Raises `EndedError` if the result says why the part is `absent`, such as a missing module, or
    what is `wrong` in the settings.
    """
    found = device.ask(program_text(program), silence_s)
    if isinstance(found, dict) and "absent" in found:
        raise EndedError(Finding(Result.NOT_RUN, f"not on this board: {found['absent']}"))
    if isinstance(found, dict) and "wrong" in found:
        fix = "correct it in the folder's settings.py and deploy again"
        raise EndedError(fails(found["wrong"], fix))
    return found
