"""Start a board's programs on the unix port of MicroPython, with simulated hardware.

    micropython tests/board/edge.py FOLDER

FOLDER is the board's flash, and its `edge.json` says how the hardware behaves. Simulated are the
radio, the time server, the sensors, and a clock that is not set. The last line is JSON: the heap.
"""

import gc
import json
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

port_gc: "Any" = gc
port_gc.threshold(4096)  # collected often, the heap keeps in one piece

UNSET = 1_609_459_200  # 2021-01-01, where the clock of an rp2 starts


class Port:
    """How often the radio and the time server fail, and what time it is."""

    def __init__(self, told: "dict[str, Any]") -> None:
        self.wifi_failures = told.get("wifi_failures", 0)
        self.ntp_failures = told.get("ntp_failures", 0)
        self.date = told["date"]
        self.offset = 946_684_800 if told.get("epoch") == 2000 else 0
        self.unix = self.date if told.get("set") else UNSET


class Time:
    """The module `time`: no sleep lasts, and the date is the port's."""

    def __init__(self, port: Port) -> None:
        self.port = port
        for name in ("ticks_ms", "ticks_us", "ticks_add", "ticks_diff", "sleep_ms"):
            setattr(self, name, getattr(time, name))
        self.sleep = lambda seconds: None  # no method: only attributes can be imported by name

    def time(self) -> int:
        unix: int = self.port.unix - self.port.offset
        return unix

    def gmtime(self, seconds: int) -> "Any":
        return time.gmtime(seconds + self.port.offset)


class Station:
    """A `network.WLAN`."""

    joined = False

    def __init__(self, port: Port) -> None:
        self.port = port

    def active(self, on: bool) -> None:
        pass

    def connect(self, name: str, password: str) -> None:
        assert (name, password) == ("garden", "pass-Word-1")
        self.joined = self.port.wifi_failures == 0
        self.port.wifi_failures -= 1

    def disconnect(self) -> None:
        pass

    def isconnected(self) -> bool:
        return self.joined

    def status(self) -> int:
        return 201

    def ifconfig(self) -> "tuple[str, ...]":
        return ("192.168.1.7", "255.255.255.0", "192.168.1.1", "192.168.1.1")


class Network:
    """The module `network`."""

    STA_IF = 0

    def __init__(self, port: Port) -> None:
        self.port = port

    def WLAN(self, interface: int) -> Station:  # noqa: N802 - the firmware's name
        return Station(self.port)


class TimeServer:
    """The module `ntptime`."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def settime(self) -> None:
        self.port.ntp_failures -= 1
        if self.port.ntp_failures >= 0:
            raise OSError(110, "ETIMEDOUT")
        self.port.unix = self.port.date


class Chip:
    """The modules `machine` and `esp32`: sensors at room temperature."""

    CORE_TEMP = 4

    def __init__(self) -> None:
        self.ADC: Any = self

    def __call__(self, channel: int) -> "Chip":
        return self

    def read_u16(self) -> int:
        return 14_200

    def raw_temperature(self) -> int:
        return 70

    def mcu_temperature(self) -> int:
        return 21


class Heap:
    """The largest heap at any event of the console."""

    def __init__(self) -> None:
        self.peak = 0

    def watch(self) -> None:
        console: Any = __import__("budget_core.board.console", None, None, ("Console",)).Console
        event = console._event

        def watched(self: "Any", kind: str, **fields: "Any") -> None:
            heap.sample()
            event(self, kind, **fields)

        heap = self
        console._event = watched

    def sample(self) -> None:
        port_gc.collect()
        self.peak = max(self.peak, port_gc.mem_alloc())


def start(folder: str, told: "dict[str, Any]") -> None:
    """Run `boot.py` and `main.py` one after the other, as the firmware does."""
    port = Port(told)
    exec(told.get("before", ""))  # noqa: S102 - what a test has the port mount
    sys.path[:] = [folder, ".frozen", "/rom" if "before" in told else folder + "/lib"]
    sys.modules["time"] = Time(port)  # type: ignore[assignment]
    if told["chip"]:
        sys.modules["network"] = Network(port)  # type: ignore[assignment]
        sys.modules["ntptime"] = TimeServer(port)  # type: ignore[assignment]
        sys.modules["machine"] = sys.modules["esp32"] = Chip()  # type: ignore[assignment]
    heap = Heap()
    for program in ("/boot.py", "/main.py"):
        if program == "/main.py" and told.get("heap"):
            heap.watch()
        with open(folder + program) as file:
            source = file.read()
        exec(source, {"__name__": "__main__"})  # noqa: S102 - as the firmware does
    print(json.dumps({"peak": heap.peak}))


if __name__ == "__main__":
    with open(sys.argv[1] + "/edge.json") as file:
        told = json.load(file)
    start(sys.argv[1], told)
