"""The agent program of an ESP32: a chat over its serial line, a turn a line."""

import esp32
import settings

from budget_core.board.console import main
from budget_core.board.tools import chip_tool, note_tools


def celsius() -> float:
    """Return the chip's temperature, which its sensor tells in Fahrenheit."""
    return (esp32.raw_temperature() - 32) / 1.8


main(settings, note_tools(settings.NOTES, settings.MAX_NOTE_BYTES) + [chip_tool(celsius)])
