"""Make the clock ready, before the agent program starts: the machine's own, set by the machine."""

from budget_core.board.device import prepare_clock

prepare_clock()
