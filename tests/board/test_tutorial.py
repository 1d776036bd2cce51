"""The tutorial: its commands print what its page shows, on an emulated board."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

import pytest

from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.emulator import UnixBoard
from scripted_model import Asked, Reply, ScriptedEndpoint
from tests.paths import ROOT

from .network import DATA, PASSWORD, Encrypted, radio
from .support import PATIENCE, write

PAGE = ROOT / "docs/pico.md"
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
HIDDEN = {"API key (none):": "sk-1", "Password of the Wi-Fi (none):": PASSWORD}
# What a chip has and MicroPython's unix port lacks, in its `/lib`.
HARDWARE = {
    "network.py": radio("home", signal=None)
    + """
import machine

class ADC:
    CORE_TEMP = 4
    def __init__(self, channel): pass
    def read_u16(self): return 14_200

machine.ADC = ADC
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
        command = f"{shlex.quote(sys.executable)} -m budget_cpython.cli"
        line = self.line.replace("microbudget", command, 1)
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


@pytest.fixture
def base_url() -> Iterator[str]:
    """Return the URL of an https endpoint that this machine trusts."""
    with (
        ScriptedEndpoint(scripts={"small-model": answer}) as endpoint,
        Encrypted(endpoint, "signed") as encrypted,
    ):
        yield encrypted.base_url


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
