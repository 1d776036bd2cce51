"""Make heap and clock ready, before the agent program starts; the machine has set the clock."""

import gc

import settings

gc.threshold(settings.GC_THRESHOLD)  # before the first import of what takes memory

from budget_core.board.device import prepare_clock

prepare_clock()
