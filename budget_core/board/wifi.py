"""Join the Wi-Fi and set the clock, on boards that have one; what the hardware is comes in."""

from time import sleep

from budget_core.board import device
from budget_core.board.device import prepare_clock, stamp
from budget_core.errors import BudgetError
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_POLL_S = 0.1
_FAILING = 10  # polls in a row: a driver that tries again by itself also reports its failures
_REASONS = {
    -3: "wrong password",
    -2: "no access point of that name",
    -1: "the access point refused",
    200: "the access point fell silent",
    201: "no access point of that name",
    202: "wrong password",
    203: "the access point refused",
    204: "wrong password, or the access point did not answer",
}


class NetworkError(BudgetError):
    """The Wi-Fi could not be joined, or no server of time be reached."""


def connect(
    name: str,
    password: str,
    retries: int,
    timeout: float,
    wlan: "Any",
    wait: "Callable[[float], object]" = sleep,
) -> str:
    """Join a Wi-Fi and return the board's address there.

    `wlan` is the port's `network.WLAN` of a station. An attempt takes up to `timeout` seconds, and
    `retries` follow the first; a whole second of failure ends one early. Raises `NetworkError` with
    the last reason, never with the password.
    """
    wlan.active(True)
    reason = ""
    for attempt in range(retries + 1):
        if attempt:
            wlan.disconnect()
        try:
            wlan.connect(name, password)
            reason = _joined(wlan, timeout, wait)
        except OSError as error:
            reason = str(error)
        if not reason:
            return str(wlan.ifconfig()[0])
    wlan.active(False)
    raise NetworkError(f"cannot join Wi-Fi {name!r}: {reason}, {retries + 1} attempts")


def _joined(wlan: "Any", timeout: float, wait: "Callable[[float], object]") -> str:
    """Wait for a connection; return why there is none."""
    failing = 0
    for _ in range(max(1, int(timeout / _POLL_S))):
        if wlan.isconnected():
            return ""
        status = wlan.status()
        failing = failing + 1 if status < 0 or 200 <= status < 1000 else 0
        if failing == _FAILING:
            return _REASONS.get(status, f"status {status}")
        wait(_POLL_S)
    return f"no connection within {timeout} s"


def set_clock(
    host: str, retries: int, timeout: float, ntp: "Any", wait: "Callable[[float], object]" = sleep
) -> bool:
    """Set the port's clock by a server of time, and tell `WALL`; return whether it is believed.

    `ntp` is the port's `ntptime`. Raises `NetworkError` where no answer comes after `retries`.
    """
    ntp.host = host
    ntp.timeout = timeout
    reason = ""
    for attempt in range(retries + 1):
        if attempt:
            wait(1)
        try:
            ntp.settime()
            return WALL.mark_synced()
        except (OSError, OverflowError) as error:  # the latter for an answer from outside 32 bits
            reason = str(error) or type(error).__name__
    raise NetworkError(f"no time from {host}: {reason}, {retries + 1} attempts")


def start(settings: "Any", secret: "Any", wlan: "Any", ntp: "Any") -> bool:
    """Join the Wi-Fi that `secret` names, set the clock, and print what came of it.

    Return whether the clock is believed. A board without a network boots all the same: its budget
    continues the stored day, and `refresh_clock` tries again, once.
    """
    prepare_clock(needs_sync=True)
    if not getattr(secret, "WIFI_NAME", ""):
        print("wifi: no secret.py with WIFI_NAME: see secret_example.py")
        return False

    def ask(wifi_retries: int = 0, ntp_retries: int = 0) -> bool:
        try:
            if not wlan.isconnected():
                name, password = secret.WIFI_NAME, secret.WIFI_PASSWORD
                timeout = settings.WIFI_TIMEOUT_S
                address = connect(name, password, wifi_retries, timeout, wlan, sleep)
                print(f"wifi: {name}, address {address}")
            timeout = settings.NTP_TIMEOUT_S
            trusted = set_clock(settings.NTP_HOST, ntp_retries, timeout, ntp, sleep)
        except NetworkError as error:
            print(f"wifi: {error}")
            return False
        now = stamp(WALL())
        print(f"clock: {now}" if trusted else "clock: the time that was told is not to be believed")
        return trusted

    device.ask_time = ask
    return ask(settings.WIFI_RETRIES, settings.NTP_RETRIES)
