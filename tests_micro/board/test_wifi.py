"""Joining the Wi-Fi and setting the clock, with the radio and the server of time made up."""

import budget_core.board.wifi
import budget_core.wall_clock
from budget_core.board.device import refresh_network
from budget_core.board.wifi import connect, set_clock, start
from budget_core.errors import BudgetError
from budget_core.wall_clock import BUILT, WALL, WallClock
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECTING = 1
WRONG_PASSWORD = -3
NO_ACCESS_POINT = 201
NOW = BUILT + 86_400


class Radio:
    """A `network.WLAN`: what comes of each attempt is a status, an error, or `True` for joined."""

    def __init__(self, *outcomes: "Any") -> None:
        self.outcomes = list(outcomes)
        self.outcome: Any = None
        self.calls: list[str] = []
        self.given: tuple[str, str] | None = None

    def active(self, on: bool) -> None:
        self.calls.append("on" if on else "off")

    def connect(self, name: str, password: str) -> None:
        self.given = (name, password)
        self.calls.append("connect")
        self.outcome = self.outcomes.pop(0)
        if isinstance(self.outcome, Exception):
            raise self.outcome

    def disconnect(self) -> None:
        self.calls.append("disconnect")

    def isconnected(self) -> bool:
        return self.outcome is True

    def status(self) -> int:
        status: int = self.outcome
        return status

    def ifconfig(self) -> "tuple[str, ...]":
        return ("192.168.1.7", "255.255.255.0", "192.168.1.1", "192.168.1.1")


class Waits:
    """Takes the place of a sleep and adds up the seconds."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self, seconds: float) -> None:
        self.total += seconds


class TimeServer:
    """An `ntptime`: each answer is an error or the Unix time that the clock is set to."""

    host = ""
    timeout = 0

    def __init__(self, *answers: "Any") -> None:
        self.answers = list(answers)
        self.clock = 0

    def settime(self) -> None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self.clock = answer


class Settings:
    WIFI_RETRIES = 2
    WIFI_TIMEOUT_S = 5
    NTP_HOST = "time.example"
    NTP_RETRIES = 1
    NTP_TIMEOUT_S = 2


class Secret:
    WIFI_NAME = "garden"
    WIFI_PASSWORD = "pass-Word-1"  # noqa: S105 - made up


class at_the_edge:  # noqa: N801 - used like a function
    """Within it, no wait takes time, and `WALL` is a new clock that a `TimeServer` sets."""

    def __init__(self, server: "Any" = None) -> None:
        modules: Any = (
            budget_core.board.wifi,
            __import__("budget_core.board.device", None, None, ("WALL",)),
        )
        self.modules = modules
        self.waits = Waits()
        self.wall = WallClock(lambda: server.clock if server else 0)

    def __enter__(self) -> "at_the_edge":
        for module in self.modules:
            module.WALL = self.wall
        self.modules[0].sleep = self.waits
        return self

    def __exit__(self, *error: object) -> None:
        for module in self.modules:
            module.WALL = WALL
        self.modules[0].sleep = __import__("time").sleep
        self.modules[1].rejoin = None


def join(radio: Radio, retries: int = 2, timeout: float = 5) -> "tuple[Any, float]":
    """Return the address, or the error, and the seconds that were waited."""
    with at_the_edge() as edge:
        try:
            found: Any = connect("garden", "pass-Word-1", retries, timeout, radio)
        except BudgetError as error:
            found = error
        return found, edge.waits.total


def test_a_wifi_that_answers_is_joined_at_once() -> None:
    radio = Radio(True)
    address, waited = join(radio)
    assert address == "192.168.1.7"
    assert radio.given == ("garden", "pass-Word-1")
    assert radio.calls == ["on", "connect"]
    assert waited == 0


def test_a_wifi_that_fails_twice_is_joined_at_the_third_attempt() -> None:
    radio = Radio(NO_ACCESS_POINT, OSError("Wifi Internal Error"), True)
    assert join(radio)[0] == "192.168.1.7"
    assert radio.calls == ["on", "connect", "disconnect", "connect", "disconnect", "connect"]


def test_an_attempt_lasts_no_longer_than_its_timeout() -> None:
    error, waited = join(Radio(*[CONNECTING] * 2), 1, 3)
    assert 5.9 < waited < 6.1
    assert str(error) == "cannot join Wi-Fi 'garden': no connection within 3 s, 2 attempts"


def test_a_failure_that_stays_ends_an_attempt_within_a_second() -> None:
    error, waited = join(Radio(WRONG_PASSWORD), 0, 60)
    assert waited < 1
    assert "wrong password" in str(error)


def test_a_driver_that_fails_and_goes_on_by_itself_is_waited_for() -> None:
    class Wavering(Radio):
        seen = 0

        def status(self) -> int:
            self.seen += 1
            return NO_ACCESS_POINT if self.seen % 4 else CONNECTING

        def isconnected(self) -> bool:
            return self.seen > 30

    assert join(Wavering(None))[0] == "192.168.1.7"


def test_an_unknown_status_is_shown_as_a_number() -> None:
    error, _ = join(Radio(777), 0)
    assert "status 777" in str(error)


def test_a_network_error_never_shows_the_password_and_turns_the_radio_off() -> None:
    radio = Radio(OSError("no radio"))
    error, _ = join(radio, 0)
    assert "no radio" in str(error)
    assert "pass-Word-1" not in str(error)
    assert radio.calls[-1] == "off"


def test_a_server_of_time_that_fails_once_is_asked_again() -> None:
    server = TimeServer(OSError(110, "timed out"), NOW)
    with at_the_edge(server) as edge:
        edge.wall.needs_sync = True
        assert set_clock("time.example", 1, 2, server)
        assert edge.wall() > 0
        assert NOW <= edge.wall() <= NOW + 1
    assert (server.host, server.timeout) == ("time.example", 2)


def test_a_time_before_the_build_is_not_believed() -> None:
    server = TimeServer(BUILT - 1)
    with at_the_edge(server) as edge:
        assert not set_clock("time.example", 0, 2, server)
        assert edge.wall() == 0


def test_no_time_after_all_retries_is_a_network_error() -> None:
    server = TimeServer(OSError(110, "timed out"), OverflowError())
    with at_the_edge(server):
        error = raises(BudgetError, set_clock, "time.example", 1, 2, server)
    assert str(error) == "no time from time.example: OverflowError, 2 attempts"


def test_a_board_with_wifi_starts_with_a_clock_that_is_believed() -> None:
    server = TimeServer(OSError(110, "timed out"), NOW)
    with at_the_edge(server) as edge:
        assert start(Settings, Secret, Radio(NO_ACCESS_POINT, True), server)
        assert edge.wall.needs_sync
        assert edge.wall() > 0


def test_a_board_without_wifi_starts_with_a_clock_that_is_not() -> None:
    server = TimeServer(NOW)
    server.clock = NOW  # not by a sync
    for secret, radio in ((Secret, Radio(*[CONNECTING] * 3)), (None, Radio())):
        with at_the_edge(server) as edge:
            assert not start(Settings, secret, radio, server)
            assert edge.wall.needs_sync
            assert edge.wall() == 0
    assert server.answers == [NOW]


def test_a_board_whose_server_of_time_is_silent_starts_all_the_same() -> None:
    server = TimeServer(OSError(), OSError())
    with at_the_edge(server) as edge:
        assert not start(Settings, Secret, Radio(True), server)
        assert edge.wall() == 0


def test_a_date_that_is_not_believed_is_asked_for_again() -> None:
    server = TimeServer(OSError(), OSError(), OSError(), NOW)
    with at_the_edge(server) as edge:
        radio = Radio(True)
        assert not start(Settings, Secret, radio, server)
        refresh_network()
        assert edge.wall() == 0
        refresh_network()
        assert edge.wall() > 0
        assert radio.calls.count("connect") == 1
        refresh_network()
    assert server.answers == []


def test_a_wifi_that_was_not_there_is_joined_when_the_time_is_asked_for_again() -> None:
    server = TimeServer(NOW)
    with at_the_edge(server) as edge:
        assert not start(Settings, Secret, Radio(CONNECTING, CONNECTING, CONNECTING, True), server)
        refresh_network()
        assert edge.wall() > 0


def test_a_wifi_that_is_lost_is_joined_again_though_the_clock_is_fresh() -> None:
    server = TimeServer(NOW)
    with at_the_edge(server) as edge:
        radio = Radio(True, OSError("Wifi Internal State Error"), True, CONNECTING, CONNECTING)
        assert start(Settings, Secret, radio, server)
        refresh_network()
        assert radio.calls == ["on", "connect"]
        radio.outcome = CONNECTING  # the access point went away
        refresh_network()
        assert radio.isconnected()
        radio.outcome = CONNECTING
        refresh_network()
        assert not radio.isconnected()
        assert 9.9 < edge.waits.total < 10.1  # two attempts
        assert not edge.wall.stale
    assert server.answers == []


def test_a_board_without_a_network_asks_no_server() -> None:
    with at_the_edge() as edge:
        refresh_network()
        assert edge.wall() == 0
