"""The agent program of the Raspberry Pi Pico W: a chat over USB, a turn a line."""

import settings
from machine import ADC

from budget_core.board.console import main
from budget_core.board.tools import chip_tool, note_tools


def celsius() -> float:
    """Return the chip's temperature, by the formula of the RP2040 datasheet."""
    volts = ADC(ADC.CORE_TEMP).read_u16() * 3.3 / 65_535
    return 27 - (volts - 0.706) / 0.001721


main(settings, note_tools(settings.NOTES, settings.MAX_NOTE_BYTES) + [chip_tool(celsius)])
