"""Join the Wi-Fi and set the clock on a board; on this machine both are there."""

try:
    import network
    import ntptime
except ImportError:
    from budget_core.board.device import prepare_clock

    prepare_clock()
else:
    import settings

    from budget_core.board.device import optional
    from budget_core.board.wifi import start

    start(settings, optional("secret"), network.WLAN(network.STA_IF), ntptime)
