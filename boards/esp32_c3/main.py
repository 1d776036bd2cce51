"""The agent program of an ESP32-C3: a chat over USB or its serial line, a turn a line."""

import esp32
import settings

from budget_core.board.console import main
from budget_core.board.tools import chip_tool, note_tools

main(
    settings,
    note_tools(settings.NOTES, settings.MAX_NOTE_BYTES) + [chip_tool(esp32.mcu_temperature)],
)
