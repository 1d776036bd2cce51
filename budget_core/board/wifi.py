"""Join the Wi-Fi and set the clock, on boards that have one; the hardware is passed in."""

from time import sleep

from budget_core.board import device
from budget_core.board.device import prepare_clock
from budget_core.errors import BudgetError
from budget_core.until import stamp
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POLL_S = 0.1
_FAILING = 10  # polls in a row: a driver that tries again by itself also reports its failures
_NO_NETWORK = "no access point of that name"
_REFUSED = "wrong password"
_REASONS = {-3: _REFUSED, -2: _NO_NETWORK, 201: _NO_NETWORK, 202: _REFUSED, 204: _REFUSED}


def connect(name: str, password: str, retries: int, timeout: float, wlan: "Any") -> str:
    """Join a Wi-Fi and return the board's address there.

    `wlan` is the port's `network.WLAN` of a station. An attempt takes up to `timeout` seconds, and
    `retries` follow the first; a whole second of failure ends one early. Raises `BudgetError` with
    the last reason, never with the password.
    """
    wlan.active(True)
    reason = ""
    for attempt in range(retries + 1):
        if attempt:
            wlan.disconnect()
        try:
            wlan.connect(name, password)
            reason = _failure(wlan, timeout)
        except OSError as error:
            reason = str(error)
        if not reason:
            return str(wlan.ifconfig()[0])
    wlan.active(False)
    raise BudgetError(f"cannot join Wi-Fi {name!r}: {reason}, {retries + 1} attempts")


def _failure(wlan: "Any", timeout: float) -> str:
    """Wait for a connection; return why there is none, or an empty text."""
    failing = 0
    for _ in range(max(1, int(timeout / _POLL_S))):
        if wlan.isconnected():
            return ""
        status = wlan.status()
        failing = failing + 1 if status < 0 or 200 <= status < 1000 else 0
        if failing == _FAILING:
            return _REASONS.get(status, f"status {status}")
        sleep(_POLL_S)
    return f"no connection within {timeout} s"


def set_clock(host: str, retries: int, timeout: float, ntp: "Any") -> bool:
    """Set the port's clock by a time server, and then `WALL`; return whether it is believed.

    `ntp` is the port's `ntptime`. Raises `BudgetError` if no answer comes after `retries`.
    """
    ntp.host = host
    ntp.timeout = timeout
    reason = ""
    for attempt in range(retries + 1):
        if attempt:
            sleep(1)
        try:
            ntp.settime()
            return WALL.mark_synced()
        except (OSError, OverflowError) as error:  # the latter for an answer from outside 32 bits
            reason = str(error) or type(error).__name__
    raise BudgetError(f"no time from {host}: {reason}, {retries + 1} attempts")


def start(settings: "Any", secret: "Any", wlan: "Any", ntp: "Any") -> bool:
    """Join the Wi-Fi that `secret` names, set the clock, and print the result.

    Return whether the clock is believed. A board without a network boots all the same: its budget
    continues the stored day, and `refresh_network` tries again.
    """
    prepare_clock(needs_sync=True)
    if not getattr(secret, "WIFI_NAME", ""):
        print("wifi: no secret.py with WIFI_NAME: see secret_example.py")
        return False

    # A driver that is joining again by itself refuses the first attempt.
    def join(wifi_retries: int = 1, ntp_retries: int = 0) -> bool:
        try:
            if not wlan.isconnected():
                name, timeout = secret.WIFI_NAME, settings.WIFI_TIMEOUT_S
                address = connect(name, secret.WIFI_PASSWORD, wifi_retries, timeout, wlan)
                print(f"wifi: {name}, address {address}")
            if not WALL.stale:
                return True
            trusted = set_clock(settings.NTP_HOST, ntp_retries, settings.NTP_TIMEOUT_S, ntp)
        except BudgetError as error:
            print(f"wifi: {error}")
            return False
        print(f"clock: {stamp(WALL())}" if trusted else "clock: the server's time is not believed")
        return trusted

    device.rejoin = join
    return join(settings.WIFI_RETRIES, settings.NTP_RETRIES)
