"""Join the Wi-Fi and set the clock, before the agent program starts."""

import network
import ntptime
import settings

from budget_core.board.device import optional
from budget_core.board.wifi import start

start(settings, optional("secret"), network.WLAN(network.STA_IF), ntptime)
