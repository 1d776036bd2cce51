"""How a check runs a program of the folder `programs` on the board, and ends."""

from pathlib import Path
from typing import Any

from budget_cpython.board.device import Device
from budget_cpython.finding import Finding, Result, fails

_PROGRAMS = Path(__file__).with_name("programs")
_RUN = """
import json
try:
    print(json.dumps(_look()))
except ImportError as error:
    print(json.dumps({"absent": str(error)}))
"""


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
