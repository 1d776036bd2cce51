"""Keep the heap in one piece, join the Wi-Fi and set the clock; a machine has the last two."""

import gc

import settings

gc.threshold(settings.GC_THRESHOLD)  # before the first import of what takes memory

try:
    import network
    import ntptime
except ImportError:
    from budget_core.board.device import prepare_clock

    prepare_clock()
else:
    from budget_core.board.device import optional
    from budget_core.board.wifi import start

    start(settings, optional("secret"), network.WLAN(network.STA_IF), ntptime)
