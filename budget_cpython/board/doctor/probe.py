"""Run on a board the programs of the folder `programs`, which look and change nothing."""

from pathlib import Path
from typing import Any

from budget_cpython.board.device import Device

_PROGRAMS = Path(__file__).with_name("programs")


def probe(device: Device, program: str, silence_s: float = 0) -> Any:
    """Run one of the programs; return what it prints, read as JSON."""
    return device.ask((_PROGRAMS / f"{program}.py").read_text("utf-8"), silence_s)
