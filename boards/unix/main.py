"""The agent program of the unix board: a chat over its pty, a turn a line."""

import settings

from budget_core.board.console import main
from budget_core.board.tools import chip_tool, note_tools

main(settings, note_tools(settings.NOTES, settings.MAX_NOTE_BYTES) + [chip_tool()])
