"""Settings and secrets are checked on this machine, before a port is opened."""

import shutil
from pathlib import Path

import pytest

from budget_cpython.board.check import check_board
from budget_cpython.board.known_boards import known_boards

from .support import Cli, make_board

AGENT = "import settings\nfrom budget_core.board.console import main\nmain(settings, [])\n"
NOWHERE = ("--port", "/dev/nowhere")


@pytest.fixture
def deploy(mine: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, which ends with 1 where it looks for the board."""
    return Cli(None, capsys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("DAILY_BUDGET = -5", "DAILY_BUDGET = -5: daily_budget must be a whole number >= 0"),
        ("DAILY_BUDGET = '5'", "DAILY_BUDGET = '5'"),
        ("RESET_HOUR_UTC = 25", "RESET_HOUR_UTC = 25: reset_hour_utc must be"),
        ("ALLOWANCE = None", "ALLOWANCE = None"),
        ("STATE = ''", "STATE = ''"),
        ("STATE = None", "STATE = None"),
        ("DAY_WARNINGS = (2,)", "DAY_WARNINGS = (2,)"),
        ("WRITE_AHEAD = 1.5", "WRITE_AHEAD = 1.5"),
        ("WRITE_AHEAD = 50_001", "WRITE_AHEAD = 50001: a power cut would cost the whole"),
        ("TIMEOUT_S = -1", "TIMEOUT_S = -1"),
        ("NOTICE_AT = 0.5", "NOTICE_AT = 0.5"),
        ("CALL_TIMEOUT_S = '60'", "CALL_TIMEOUT_S = '60'"),
        ("BASE_URL = 'ftp://x'", "BASE_URL = 'ftp://x'"),
        ("LEDGER_ACCOUNT = ''", "LEDGER_ACCOUNT = ''"),
        ("DEVICE = 'my board'", "DEVICE = 'my board'"),
        ("STATE = 'budget'", "STATE = 'budget': name a folder from the root on, as in '/budget'"),
        ("STATE = '/'", "STATE = '/'"),
        ("HISTORY_CHARS = None", "HISTORY_CHARS = None: chars must be a whole number >= 0"),
        ("MAX_NOTE_BYTES = -1", "MAX_NOTE_BYTES = -1"),
        ("NOTES = 3", "NOTES = 3"),
        ("CA_FILE = 3", "CA_FILE = 3"),
        ("1 +", "settings.py, line 5: this is not Python: invalid syntax"),
        ("1 / 0", "settings.py, line 5: ZeroDivisionError: division by zero"),
        ("def f(): x = 1 / 0\nf()", "settings.py, line 5: ZeroDivisionError"),
        ("del STATE", "settings.py lacks STATE"),
    ],
)
def test_settings_that_the_core_would_refuse_are_named(
    deploy: Cli, mine: Path, line: str, words: str
) -> None:
    with (mine / "settings.py").open("a") as file:
        file.write(line + "\n")
    said = deploy.bare("deploy", mine, *NOWHERE)
    assert said.code == 2
    assert words in said.err


@pytest.mark.parametrize("name", ["API_KEY", "LEDGER_KEY"])
@pytest.mark.parametrize("value", ["sk 1234", ["sk-1234"]])
def test_a_key_among_the_settings_is_not_printed(
    deploy: Cli, mine: Path, name: str, value: object
) -> None:
    with (mine / "settings.py").open("a") as file:
        file.write(f"{name} = {value!r}\n")
    said = deploy.bare("deploy", mine, *NOWHERE)
    assert said.code == 2
    assert f"settings.py: {name}: " in said.err
    assert "1234" not in said.out + said.err


@pytest.mark.parametrize("name", ["settings.py", "main.py", "secret.py"])
def test_a_byte_order_mark_is_refused_with_the_fix(deploy: Cli, mine: Path, name: str) -> None:
    (mine / "secret.py").write_text("API_KEY = 'sk-1'\n")
    (mine / name).write_bytes(b"\xef\xbb\xbf" + (mine / name).read_bytes())
    said = deploy.bare("deploy", mine, "--secrets", mine / "secret.py", *NOWHERE)
    assert said.code == 2
    assert f"{name} begins with a byte order mark: save it as UTF-8 without one" in said.err


def test_settings_of_the_agent_are_needed_only_on_its_boards(deploy: Cli, mine: Path) -> None:
    assert deploy.bare("deploy", mine, *NOWHERE).code == 1
    (mine / "main.py").write_text(AGENT)
    said = deploy.bare("deploy", mine, *NOWHERE)
    assert said.code == 2
    assert "settings.py lacks BASE_URL, CACHED_TOKEN_WEIGHT, " in said.err
    assert "WIFI" not in said.err
    (mine / "boot.py").write_text("from budget_core.board.wifi import start\n")
    assert "WIFI_TIMEOUT_S" in deploy.bare("deploy", mine, *NOWHERE).err


def test_settings_that_the_program_reads_are_needed(deploy: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("import settings\nprint(settings.LAMP_PIN)\n")
    assert "lacks LAMP_PIN:" in deploy.bare("deploy", mine, *NOWHERE).err


def test_settings_that_import_a_module_of_the_board_are_not_run(deploy: Cli, mine: Path) -> None:
    (mine / "settings.py").write_text("from machine import Pin\nSTATE = '/budget'\n")
    assert deploy.bare("deploy", mine, *NOWHERE).code == 1


@pytest.mark.parametrize("text", ["API_KEY = 'sk-mine", "API_KEY = sk-mine'", "API_KEY = 'sk-\0'"])
def test_secrets_with_a_syntax_error_are_not_printed(deploy: Cli, mine: Path, text: str) -> None:
    (mine / "secret.py").write_text("WIFI_NAME = 'w'\n" + text + "\n")
    said = deploy.bare("deploy", mine, "--secrets", mine / "secret.py", *NOWHERE)
    assert said.code == 2
    assert "secret.py" in said.err
    assert "this is not Python" in said.err
    assert "sk" not in said.out + said.err


def test_a_backslash_in_a_secret_is_not_a_warning(deploy: Cli, mine: Path) -> None:
    (mine / "secret.py").write_text(r"WIFI_PASSWORD = 'a\d'")
    said = deploy.bare("deploy", mine, "--secrets", mine / "secret.py", *NOWHERE)
    assert (said.code, "there is no port" in said.err) == (1, True)


def test_secrets_are_needed_for_wifi_and_for_https(tmp_path: Path) -> None:
    needs = {name: check_board(folder) for name, folder in known_boards().items()}
    assert needs == {name: name != "unix" for name in needs}
    mine = make_board(tmp_path / "mine")
    assert not check_board(mine)
    with (mine / "settings.py").open("a") as file:
        file.write("BASE_URL = 'https://llm.example/v1'\n")
    assert check_board(mine)


@pytest.mark.parametrize(
    ("room", "words"),
    [
        ("board", "--without board: {mine}/main.py imports budget_core.board.console"),
        ("chat", "budget_core/board/make_agent.py imports budget_core.chat."),
        ("rooms", "--without rooms: the rooms are agent, board, chat, ledger"),
    ],
)
def test_a_room_that_the_program_needs_is_not_left_out(
    deploy: Cli, mine: Path, room: str, words: str
) -> None:
    (mine / "main.py").write_text(AGENT)
    said = deploy.bare("deploy", mine, *NOWHERE, "--without", room)
    assert said.code == 2
    assert words.format(mine=mine) in said.err


def test_a_public_name_needs_the_room_of_its_module(deploy: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("def later():\n    from budget_core import LeasedLedger\n")
    said = deploy.bare("deploy", mine, *NOWHERE, "--without", "ledger")
    assert said.code == 2
    assert "main.py imports" in said.err


def test_a_ledger_needs_its_room_and_its_settings(deploy: Cli, mine: Path) -> None:
    shutil.copytree(known_boards()["unix"], mine, dirs_exist_ok=True)
    assert deploy.bare("deploy", mine, *NOWHERE, "--without", "ledger").code == 1
    settings = (mine / "settings.py").read_text()
    settings = settings.replace('LEDGER = ""', 'LEDGER = "http://host:8321"')
    (mine / "settings.py").write_text(settings)
    assert deploy.bare("deploy", mine, *NOWHERE).code == 1
    said = deploy.bare("deploy", mine, *NOWHERE, "--without", "ledger")
    assert said.code == 2
    assert " imports budget_core.ledger." in said.err
    (mine / "settings.py").write_text(settings + "LEDGER = 'host'\n")
    assert "LEDGER = 'host': the URL must be like" in deploy.bare("deploy", mine, *NOWHERE).err
    (mine / "settings.py").write_text(settings + "del DEVICE\n")
    assert "settings.py lacks DEVICE:" in deploy.bare("deploy", mine, *NOWHERE).err
