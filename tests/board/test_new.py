"""A folder that `board new` makes: from questions, from options, and never over another's files."""

import io
import os
import runpy
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.board.check import check_board
from budget_cpython.board.known_boards import board_files, known_boards
from scripted_model import ScriptedEndpoint
from tests.board.emulator.client import Terminal
from tests.board.emulator.noon import NoonBoard
from tests.paths import ROOT

from .support import PATIENCE, Cli, Said, pseudo_terminal, read_until

KEY = "sk-Secret-0123456789"
PASSWORD = "pass-Word-1"  # noqa: S105 - made up
PROMPT = b"\n> "


@pytest.fixture
def made(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, with no board."""
    return Cli(None, capsys)  # type: ignore[arg-type]


def answered(cli: Cli, monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> Said:
    """Make a folder; the lines are typed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(line + "\n" for line in lines)))
    return cli.bare("new", folder)


def settings_of(folder: Path) -> dict[str, Any]:
    return runpy.run_path(str(folder / "settings.py"))


def secrets_of(folder: Path) -> dict[str, str]:
    found = runpy.run_path(str(folder / "secret.py"))
    return {name: value for name, value in found.items() if name.isupper()}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_with_yes_it_asks_nothing_and_says_the_next_commands(made: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "garden"
    said = made.bare("new", folder, "--yes")
    assert (said.code, said.err) == (0, "")
    assert f"  microbudget board deploy {folder} --secrets {folder}/secret.py" in said.out
    assert f"  microbudget board run {folder}" in said.out
    wanted = set(board_files(known_boards()["unix"])) - {"manifest.py", "README.md"}
    assert set(files_of(folder)) == {*wanted, "secret.py", ".gitignore"}
    assert files_of(folder)["settings.py"] == (ROOT / "boards/unix/settings.py").read_bytes()
    assert secrets_of(folder) == {"API_KEY": ""}


def test_the_next_commands_can_be_pasted_where_a_name_has_blanks(made: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "my board"
    said = made.bare("new", folder, "--yes")
    assert f"deploy '{folder}' --secrets '{folder}/secret.py'" in said.out
    assert f"run '{folder}'" in said.out


def test_a_folder_that_cannot_be_made_is_an_error(made: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = made.bare("new", tmp_path / "file/garden", "--yes")
    assert (said.code, said.err) == (1, f"error: {tmp_path}/file/garden: Not a directory\n")


@pytest.mark.parametrize("board", known_boards())
def test_a_folder_of_every_board_can_be_deployed(made: Cli, board: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    said = made.bare("new", folder, "--board", board, "--yes")
    assert said.code == 0
    check_board(folder)
    settings = settings_of(folder)
    assert settings["DAILY_BUDGET"] == 50_000
    own = board_files(known_boards()[board])
    assert files_of(folder)["main.py"] == own["main.py"].read_bytes()
    assert files_of(folder)["boot.py"] == own["boot.py"].read_bytes()
    if board == "unix":
        assert settings["BASE_URL"] == "http://127.0.0.1:8080/v1"
        assert "fill in" not in said.out
    else:
        assert settings["BASE_URL"] == "https://api.openai.com/v1"
        assert secrets_of(folder) == {"WIFI_NAME": "", "WIFI_PASSWORD": "", "API_KEY": ""}
        assert f"fill in API_KEY and WIFI_NAME in {folder}/secret.py" in said.out


def test_options_answer_the_questions(
    made: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = made.bare(
        "new", "garden", "--board", "rp2_pico_2_w", "--base-url", "https://llm.example/v1",
        "--model", "small-model", "--daily-tokens", "20_000", "--api-key", KEY,
        "--wifi-name", "Küche \"5\"", "--wifi-password", PASSWORD,
    )  # fmt: skip
    assert said.code == 0
    assert KEY not in said.out + said.err
    assert PASSWORD not in said.out + said.err
    assert "microbudget board deploy ./garden --secrets ./garden/secret.py" in said.out
    folder = tmp_path / "garden"
    settings = settings_of(folder)
    assert settings["DAILY_BUDGET"] == 20_000
    assert (settings["BASE_URL"], settings["MODEL"]) == ("https://llm.example/v1", "small-model")
    assert settings["WRITE_AHEAD"] == 2_000
    wanted = {"WIFI_NAME": 'Küche "5"', "WIFI_PASSWORD": PASSWORD, "API_KEY": KEY}
    assert secrets_of(folder) == wanted


def test_a_wrong_answer_is_named_and_asked_again(
    made: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "garden"
    lines = (
        "pico", "rp2_pico_w", "ftp://x", "https://llm.example/v1", "", "five", "0", "5,000",
        "two words", KEY, "x" * 33, "garden", "short", PASSWORD,
    )  # fmt: skip
    said = answered(made, monkeypatch, folder, *lines)
    assert said.code == 0
    errors = [line.split("error: ")[1] for line in said.out.splitlines() if "error: " in line]
    assert errors[0].startswith("there is no board 'pico'; choose one of esp32_c3, ")
    assert errors[1].startswith("'ftp://x': the URL must be like https://")
    assert errors[2].startswith("'five' is not a number of tokens: give one of 1 or more")
    assert errors[3].startswith("'0' is not a number of tokens")
    assert errors[4] == "the key must be visible ASCII characters, without blanks"
    assert errors[5].endswith("has 33 bytes: the name of a Wi-Fi has at most 32")
    assert errors[6] == "the password has 5 characters: that of a Wi-Fi has 8 to 63"
    assert len(errors) == 7
    settings = settings_of(folder)
    assert (settings["DAILY_BUDGET"], settings["MODEL"]) == (5_000, "gpt-4o-mini")
    assert secrets_of(folder)["WIFI_PASSWORD"] == PASSWORD


def test_an_empty_answer_takes_the_default(
    made: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(made, monkeypatch, tmp_path / "typed", *[""] * 5)
    made.bare("new", tmp_path / "yes", "--yes")
    assert files_of(tmp_path / "typed") == files_of(tmp_path / "yes")


def test_answers_that_end_early_make_nothing(
    made: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = answered(made, monkeypatch, tmp_path / "garden", "unix")
    assert said.code == 2
    assert "no answer to 'Endpoint': give --base-url, or --yes for the defaults" in said.err
    assert not (tmp_path / "garden").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--board", "pico"], "--board: there is no board 'pico'"),
        (["--base-url", "llm.example"], "--base-url: 'llm.example': the URL must be like"),
        (["--model", ""], "--model: '' is not the name of a model"),
        (["--daily-tokens", "1e6"], "--daily-tokens: '1e6' is not a number of tokens"),
        (["--api-key", "sk-Secret key"], "--api-key: the key must be visible ASCII"),
        (["--wifi-name", "garden"], "--wifi-name: the board unix has no Wi-Fi"),
        (
            ["--board", "rp2_pico_w", "--wifi-password", "sk-Secret"],
            "--wifi-password: it has no name of a Wi-Fi: give --wifi-name too",
        ),
        (["--secrets", "nowhere.py"], "there is no file nowhere.py with secrets"),
        (["--board", "esp32_s3", "--wifi-name", "a", "--wifi-password", "b"], "1 characters"),
    ],
)
def test_a_wrong_option_is_a_usage_error_and_makes_nothing(
    made: Cli, options: list[str], words: str, tmp_path: Path
) -> None:
    said = made.bare("new", tmp_path / "garden", "--yes", *options)
    assert said.code == 2
    assert words in said.err
    assert "sk-Secret" not in said.err
    assert not (tmp_path / "garden").exists()


def test_a_folder_with_files_is_left_as_it_is(made: Cli, tmp_path: Path) -> None:
    assert made.bare("new", tmp_path / "garden", "--yes").code == 0
    before = files_of(tmp_path / "garden")
    said = made.bare("new", tmp_path / "garden", "--yes", "--daily-tokens", "5")
    assert said.code == 2
    assert "garden exists: name a new or an empty folder" in said.err
    assert files_of(tmp_path / "garden") == before
    (tmp_path / "file").write_text("mine")
    assert made.bare("new", tmp_path / "file", "--yes").code == 2
    (tmp_path / "empty").mkdir()
    assert made.bare("new", tmp_path / "empty", "--yes").code == 0


def test_the_secrets_are_read_by_their_owner_only_and_not_committed(
    made: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "garden"
    made.bare("new", folder, "--yes", "--api-key", KEY)
    assert stat.S_IMODE((folder / "secret.py").stat().st_mode) == 0o600
    assert [name for name, data in files_of(folder).items() if KEY.encode() in data] == [
        "secret.py"
    ]
    git: list[str | Path] = ["git", "-C", folder]
    subprocess.run([*git, "init", "-q"], check=True)
    added = [*git, "add", "--all", "--dry-run"]
    names = subprocess.run(added, check=True, capture_output=True, text=True).stdout
    assert "settings.py" in names
    assert "'secret.py'" not in names


def test_secrets_can_be_copied_from_a_file(made: Cli, tmp_path: Path) -> None:
    secrets = tmp_path / "secret.py"
    secrets.write_text(f"WIFI_NAME = 'garden'\nWIFI_PASSWORD = 'x'\nAPI_KEY = {KEY!r}\n")
    options = ("--board", "esp32_c3", "--yes", "--secrets", secrets)
    said = made.bare("new", tmp_path / "garden", *options)
    assert said.code == 0
    assert "fill in" not in said.out
    assert (tmp_path / "garden/secret.py").read_bytes() == secrets.read_bytes()
    said = made.bare("new", tmp_path / "other", *options, "--api-key", KEY)
    assert said.code == 2
    assert "--api-key: the secrets are those of --secrets" in said.err


def test_a_key_that_is_typed_at_a_terminal_is_not_shown(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "budget_cpython.cli", "board", "new", str(tmp_path / "mine")]
    options = [
        "--board",
        "unix",
        "--base-url",
        "http://h/v1",
        "--model",
        "m",
        "--daily-tokens",
        "9",
    ]
    with (
        pseudo_terminal() as (keyboard, terminal),
        subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        ) as process,
    ):
        shown = read_until(keyboard, "API key (none): ")
        os.write(keyboard, KEY.encode() + b"\n")
        shown += read_until(keyboard, "microbudget board run")
        assert process.wait(PATIENCE) == 0
    assert KEY not in shown
    assert secrets_of(tmp_path / "mine") == {"API_KEY": KEY}


def test_the_folder_is_deployed_and_answers_as_it_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "garden"
    with (
        ScriptedEndpoint(api_key=KEY) as endpoint,
        NoonBoard(tmp_path / "flash.img", heap="512k") as board,
    ):
        cli = Cli(board, capsys)
        options = ("--base-url", endpoint.base_url, "--api-key", KEY, "--daily-tokens", "9000")
        made = cli.bare("new", folder, "--yes", *options)
        (deploy,) = [line.split()[2:] for line in made.out.splitlines() if "board deploy" in line]
        assert cli(*deploy).code == 0
        with Terminal(board.port) as terminal:
            terminal.read_until(PROMPT)
            shown = terminal.answer(b"What is left to do?\r", PROMPT).decode()
        assert "I read 0 of 0 files." in shown or "no notes" in shown, shown
        assert "/9000 tokens" in shown
        assert cli("doctor").code == 0
