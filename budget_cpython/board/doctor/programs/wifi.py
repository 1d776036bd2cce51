"""Print whether the board is in its Wi-Fi; try once to join, if it is not."""
# mypy: ignore-errors

import settings

from budget_core.board.device import optional


def _look():
    network, secret = optional("network"), optional("secret")
    if network is None:
        return {"absent": "its firmware has no Wi-Fi"}
    if not hasattr(settings, "WIFI_TIMEOUT_S"):
        return {"absent": "its program uses no Wi-Fi"}
    name = getattr(secret, "WIFI_NAME", "")
    if not name:
        return {"nameless": True}
    wlan = network.WLAN(network.STA_IF)
    if not wlan.isconnected():
        from budget_core.board.wifi import connect
        from budget_core.errors import BudgetError

        try:
            connect(name, secret.WIFI_PASSWORD, 0, settings.WIFI_TIMEOUT_S, wlan)
        except BudgetError as error:
            return {"error": str(error)}
    try:
        signal = wlan.status("rssi")
    except (OSError, TypeError, ValueError):
        signal = None
    return {"name": name, "address": wlan.ifconfig()[0], "signal": signal}
