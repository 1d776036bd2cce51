"""Keep the heap in one piece, join the Wi-Fi and set the clock, before the agent program starts."""

import gc

import settings

gc.threshold(settings.GC_THRESHOLD)  # before the first import of what takes memory

import network
import ntptime

from budget_core.board.device import optional
from budget_core.board.wifi import start

start(settings, optional("secret"), network.WLAN(network.STA_IF), ntptime)
