"""What a deploy says, and refuses, before it changes anything."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.mpy import find_micropython32
from budget_cpython.board import fit
from budget_cpython.board.build import Form
from budget_cpython.board.device import Identity
from budget_cpython.board.fit import (
    KIB,
    LEDGER_STACK_BYTES,
    STACK_BYTES,
    TLS_KIB,
    Memory,
    heap_needed,
    stack_needed,
    unfit,
    unfit_stack,
)
from budget_cpython.board.known_boards import known_boards
from tests.board.emulator.noon import NoonBoard

from .support import Cli, copied, digests, write

CHIP = Identity("micropython", (1, 29), "rp2", "Raspberry Pi Pico W with RP2040", 6, False)
UNIX = Identity("micropython", (1, 29), "linux", "linux", 6, True)
Start = Callable[[str], Cli]


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Start]:
    """A function that turns on a new board with a heap of a size."""
    with ExitStack() as stack:
        yield lambda heap: Cli(
            stack.enter_context(NoonBoard(tmp_path / f"{heap}.img", heap=heap)), capsys
        )


def has(heap: int, stack: int = 7_936) -> Memory:
    return Memory(heap, heap, stack, 4096, 1 << 20)


def test_a_heap_that_is_too_small_is_refused_with_what_would_fit(start: Start) -> None:
    cli = start("200k")
    said = cli("deploy", "unix")
    assert said.code == 1
    assert "the heap has 202,368 bytes, but " in said.err
    assert "use --romfs, or --frozen and a firmware with the core in it, or a board" in said.err
    assert "an http URL" not in said.err
    assert digests(cli.board) == {}


def test_force_goes_on_where_the_heap_is_too_small_and_says_what_is_left(start: Start) -> None:
    said = start("250k")("deploy", "unix", "--force")
    assert said.code == 0
    assert "warning: the heap has 25" in said.out
    assert "with the program's imports done: heap " in said.out


def test_imports_that_do_not_fit_are_said(start: Start) -> None:
    said = start("96k")("deploy", "unix", "--force")
    assert said.code == 0
    assert "warning: importing what the program imports failed: the board says: Mem" in said.out


def test_tls_is_counted_on_a_chip_and_not_where_the_system_has_its_memory() -> None:
    pico = known_boards()["rp2_pico_w"]
    plain = sum(heap_needed(pico, Form.MPY, False, CHIP).values())
    on_tls = sum(heap_needed(pico, Form.MPY, True, CHIP).values())
    assert on_tls - plain == TLS_KIB * KIB
    assert heap_needed(pico, Form.MPY, True, UNIX) == heap_needed(pico, Form.MPY, False, UNIX)
    needed = heap_needed(pico, Form.MPY, True, CHIP)
    assert "an http URL of a gateway" in unfit(needed, has(plain), Form.MPY)[0]
    assert unfit(heap_needed(pico, Form.MPY, False, CHIP), has(plain), Form.MPY) == []


def test_streams_and_a_ledger_are_counted(mine: Path) -> None:
    (mine / "main.py").write_text("from budget_core.board.console import main\n")
    alone = heap_needed(mine, Form.ROMFS, False, CHIP)
    (mine / "main.py").write_text("from budget_core.board.console import main\nmain(stream=True)\n")
    with (mine / "settings.py").open("a") as file:
        file.write('LEDGER = "http://host:8321"\n')
    assert set(heap_needed(mine, Form.ROMFS, False, CHIP)) - set(alone) == {
        "streaming",
        "the ledger",
    }


def test_a_c_stack_that_is_too_small_is_refused_on_a_chip() -> None:
    pico = known_boards()["rp2_pico_w"]
    needed = stack_needed(pico, CHIP)
    assert needed == STACK_BYTES
    assert unfit_stack(needed, has(1, STACK_BYTES)) == []
    (said,) = unfit_stack(needed, has(1, STACK_BYTES - 1))
    assert said.startswith("the C stack has 5,375 bytes, but 5,376 are needed: use a firmware")
    assert unfit_stack(needed, has(1, stack=0)) == []  # the board does not say
    assert stack_needed(pico, UNIX) == 0


def test_a_deploy_says_that_the_c_stack_is_too_small_and_copies_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    micropython = find_micropython32()
    if micropython is None:
        pytest.skip("there is no 32-bit MicroPython for this machine")
    monkeypatch.setattr(fit, "STACK_BYTES", 1 << 20)
    with NoonBoard(tmp_path / "flash.img", heap="512k", micropython=micropython) as board:
        said = Cli(board, capsys)("deploy", "unix")
        assert said.code == 1
        assert "but 1,048,576 are needed: use a firmware with a larger stack" in said.err
        assert digests(board) == {}


def test_a_ledger_takes_more_of_the_c_stack(mine: Path) -> None:
    (mine / "main.py").write_text("from budget_core.board.console import main\n")
    assert stack_needed(mine, CHIP) == STACK_BYTES
    with (mine / "settings.py").open("a") as file:
        file.write('LEDGER = "http://host:8321"\n')
    assert stack_needed(mine, CHIP) == LEDGER_STACK_BYTES


def test_of_a_program_that_is_not_the_chat_nothing_is_refused(mine: Path) -> None:
    assert stack_needed(mine, CHIP) == 0
    assert heap_needed(mine, Form.SOURCE, True, CHIP) == {}
    assert unfit({}, has(1), Form.SOURCE) == []


@pytest.mark.parametrize(
    ("form", "fixes"),
    [
        (
            Form.SOURCE,
            "use --mpy, or --romfs, or --frozen and a firmware with the core",
        ),
        (Form.ROMFS, "use a board with more memory, such as PSRAM"),
    ],
)
def test_a_smaller_form_is_named(form: Form, fixes: str) -> None:
    assert fixes in unfit({"a turn of the chat": 100_000}, has(50_000), form)[0]


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(cli: Cli, mine: Path) -> None:
    write(cli.board, "/lib/budget_core/of_old.mpy", "old")
    (mine / "main.py").write_text("print('new')\n")
    (mine / "secret.py").write_text("API_KEY = 'sk-mine'\n")
    before = digests(cli.board)
    said = cli("deploy", mine, "--secrets", mine / "secret.py", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert "would remove /lib/budget_core/of_old.mpy\n" in said.out
    assert "would copy /main.py  13 bytes\n" in said.out
    assert "would copy /secret.py  20 bytes\n" in said.out
    assert "the board has: heap " in said.out
    assert said.out.endswith("to remove; nothing was changed\n")
    assert copied(said.out) == 0
    assert digests(cli.board) == before


def test_a_dry_run_on_a_new_board_lists_all(new_cli: Cli, mine: Path) -> None:
    said = new_cli("deploy", mine, "--romfs", "--dry-run")
    assert said.code == 0
    assert "would write the ROMFS image  " in said.out
    assert "would make the state's slots" in said.out
    assert digests(new_cli.board) == {}


EXAMPLE = 'WIFI_NAME = ""\nAPI_KEY = ""\nPLACE = "Rome"\n'


@pytest.mark.parametrize(
    ("text", "url", "lines"),
    [
        (EXAMPLE, "https://llm.example/v1", {"1: WIFI_NAME", "2: API_KEY", "3: PLACE"}),
        ('PLACE = "Oslo"\n\n' + EXAMPLE[:29], "http://host", {"3: WIFI_NAME"}),
        ('WIFI_NAME = "mine"\nAPI_KEY = "sk-mine"\n', "https://llm.example/v1", set()),
    ],
)
def test_secrets_that_are_still_the_examples_are_refused_by_line(
    cli: Cli, mine: Path, text: str, url: str, lines: set[str]
) -> None:
    (mine / "secret_example.py").write_text(EXAMPLE)
    (mine / "secret.py").write_text(text + f'BASE_URL = "{url}"\n')
    said = cli("deploy", mine, "--secrets", mine / "secret.py", "--dry-run")
    assert said.code == (1 if lines else 0)
    found = {line.split("line ")[1].split(" is ")[0] for line in said.err.splitlines()[:-1]}
    assert {line.removeprefix("error: ") for line in found} == lines
    assert "sk-mine" not in said.out + said.err


@pytest.mark.parametrize(("name", "lines"), [("home", 0), ("", 2)])
def test_an_open_wifi_has_an_empty_password(cli: Cli, mine: Path, name: str, lines: int) -> None:
    wifi = 'WIFI_NAME = "{}"\nWIFI_PASSWORD = ""\n'
    (mine / "secret_example.py").write_text(wifi.format(""))
    (mine / "secret.py").write_text(wifi.format(name))
    said = cli("deploy", mine, "--secrets", mine / "secret.py", "--dry-run")
    assert said.code == (1 if lines else 0)
    assert said.err.count("is still that of secret_example.py") == lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("API_KEY = 'sk-Secret one'", "line 1: API_KEY: the key must be visible ASCII"),
        ("LEDGER_KEY = 'sk-Secret\\n'", "line 1: LEDGER_KEY: the key must be visible ASCII"),
        ("BASE_URL = 'sk-Secret'", "line 1: BASE_URL: the URL must be like https://"),
    ],
)
def test_a_secret_that_the_board_would_refuse_is_named_by_its_line(
    cli: Cli, mine: Path, line: str, words: str
) -> None:
    (mine / "secret.py").write_text(line + "\n")
    said = cli("deploy", mine, "--secrets", mine / "secret.py", "--dry-run")
    assert said.code == 2
    assert words in said.err
    assert "sk-Secret" not in said.err
