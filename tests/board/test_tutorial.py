"""The tutorial: its commands print what its page shows, on an emulated board."""

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import SHUT_WR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread, Timer

import pytest

from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.endpoint import Asked, Reply, ScriptedEndpoint
from tests.paths import ROOT

from .support import PATIENCE, write

DATA = ROOT / "tests/data"
PAGE = ROOT / "docs/tutorial.md"
URL = "https://llm.example/v1"
MACHINES = {
    "rp2_pico_2_w": ("rp2", "Raspberry Pi Pico 2 W with RP2350"),
    "esp32_s3": ("esp32", "Generic ESP32S3 module with ESP32S3"),
}
MASKED = (
    (r"/dev/\w+/?\w*", "PORT"),
    (r"in (\d+ (h|min)\b ?)+", "in TIME"),
    (r"\d[\d,.]*", "#"),
)
PROMPT = re.compile(r"(.* (?:\[.*\]|\(none\)):) ?(.*)")
HIDDEN = {"API key (none):": "sk-1", "Password of the Wi-Fi (none):": "pass-Word-1"}
# What a chip has and MicroPython's unix port lacks, in its `/lib`.
HARDWARE = {
    "network.py": """
import machine

STA_IF = 0


class ADC:
    CORE_TEMP = 4

    def __init__(self, channel):
        pass

    def read_u16(self):
        return 14_200


machine.ADC = ADC


class WLAN:
    def __init__(self, interface):
        self.joined = False

    def active(self, on=None):
        return self.joined

    def connect(self, name, password):
        self.joined = (name, password) == ("home", "pass-Word-1")

    def disconnect(self):
        pass

    def isconnected(self):
        return self.joined

    def status(self):
        return 201

    def ifconfig(self):
        return ("192.168.1.7",)
""",
    "ntptime.py": "def settime():\n    pass\n",
    "esp32.py": "def mcu_temperature():\n    return 21\n",
}


@dataclass
class Command:
    """A command of the page: what is typed into it, and what it prints."""

    line: str
    typed: list[str] = field(default_factory=list)
    printed: str = ""

    def change(self, old: str, new: str) -> None:
        """Put a name of this machine in the place of the page's."""
        self.line = self.line.replace(old, new)
        self.printed = self.printed.replace(old, new)
        self.typed = [text.replace(old, new) for text in self.typed]

    def run(self, port: str, folder: Path) -> str:
        """Run it as the page's reader does, and return what it printed."""
        line = self.line.replace("microbudget", f"{sys.executable} -m budget_cpython.cli", 1)
        typed = "".join(f"{text}\n" for text in self.typed)
        with subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}" if line != self.line else line],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "MICROBUDGET_PORT": port,
                "SSL_CERT_FILE": str(DATA / "root.pem"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            if " board run " not in self.line:
                return process.communicate(typed, timeout=PATIENCE)[0]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(typed)
            process.stdin.flush()
            said = ""
            late = Timer(PATIENCE, process.kill)
            late.start()
            while not matches(said, self.printed) and (line := process.stdout.readline()):
                said += line
            late.cancel()
            process.send_signal(signal.SIGINT)
            return said


def commands() -> list[Command]:
    """Return the commands of the page's blocks, in their order."""
    found: list[Command] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:]))
            elif asked := PROMPT.fullmatch(line):
                found[-1].typed.append(HIDDEN.get(asked[1], asked[2]))
                found[-1].printed += asked[1] + " "  # what is typed into a pipe is not shown
            else:
                found[-1].typed += re.findall(r"^> (.*)", line)
                found[-1].printed += line + "\n"
    return found


def plain(text: str) -> list[str]:
    """Return lines without what differs from board to board: numbers, times and the port."""
    for pattern, word in MASKED:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def matches(printed: str, shown: str) -> bool:
    """Return whether lines were printed as the page shows them; its `…` stands for any number."""
    lines = plain(shown)
    pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in lines)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in plain(printed))) is not None


def plug_in(board: UnixBoard) -> None:
    """Give a board the hardware."""
    with BoardConnection(board.port) as connection:
        connection.run("import os\nos.mkdir('/lib')")
    for name, text in HARDWARE.items():
        write(board, f"/lib/{name}", text)


def answer(asked: Asked) -> Reply:
    return Reply("I read notes on this board and the state of its chip.")


class Encrypted(ThreadingTCPServer):
    """A port that speaks TLS and passes on what comes to an endpoint, and its answers."""

    daemon_threads = True

    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self.target = ("127.0.0.1", int(endpoint.root_url.rpartition(":")[2]))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(DATA / "signed.pem", DATA / "signed.key")
        super().__init__(("127.0.0.1", 0), Passing)
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"https://localhost:{self.server_address[1]}/v1"


class Passing(BaseRequestHandler):
    """A connection to it."""

    def handle(self) -> None:
        assert isinstance(self.server, Encrypted)
        with (
            suppress(OSError),
            create_connection(self.server.target) as plain,
            self.server.context.wrap_socket(self.request, server_side=True) as secret,
        ):
            back = Thread(target=self.pass_on, args=(plain, secret), daemon=True)
            back.start()
            self.pass_on(secret, plain)
            back.join()

    def pass_on(self, source: socket, target: socket) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
            target.shutdown(SHUT_WR)


@pytest.fixture
def base_url() -> Iterator[str]:
    """Return the URL of an https endpoint that this machine trusts."""
    with (
        ScriptedEndpoint(scripts={"small-model": answer}) as endpoint,
        Encrypted(endpoint) as encrypted,
    ):
        yield encrypted.base_url
        encrypted.shutdown()


@pytest.mark.parametrize("name", ["rp2_pico_2_w", pytest.param("esp32_s3", marks=pytest.mark.slow)])
def test_the_tutorials_commands_print_what_it_shows(
    name: str, tmp_path: Path, base_url: str
) -> None:
    of_page = [URL, "llm.example", "ISRG Root X1", "rp2_pico_2_w", MACHINES["rp2_pico_2_w"][1]]
    here = [base_url, "localhost", "Root for tests", name, MACHINES[name][1]]
    with UnixBoard(tmp_path / "flash.img", heap="700k", poses_as=MACHINES[name]) as board:
        plug_in(board)
        for command in commands():
            for old, new in zip(of_page, here, strict=True):
                command.change(old, new)
            said = command.run(board.port, tmp_path)
            assert matches(said, command.printed), f"{command.line}\n{said}"
