"""`microbudget board run`: the output of a program, and its input."""

import json
import os
import shutil
import signal
from pathlib import Path

from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.known_boards import find_board

from .support import PATIENCE, Cli, out, pseudo_terminal, read_until, start


def test_run_restarts_the_program_and_sends_what_is_typed(cli: Cli, mine: Path) -> None:
    with start("run", mine, "--port", cli.board.port) as process:
        assert process.stdin is not None
        process.stdin.write("at once\n")
        process.stdin.flush()
        said = read_until(out(process), "it was told at once")
        assert said.count("it boots") == 1
        assert said.count("the program runs") == 1
        process.stdin.write("again\n")
        process.stdin.flush()
        read_until(out(process), "it was told again")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "the program continues" in process.stderr.read()


def test_output_is_shown_after_the_end_of_the_input(cli: Cli, mine: Path) -> None:
    with start("run", mine, "--port", cli.board.port) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\n")
        process.stdin.close()
        read_until(out(process), "it was told two")
        process.stdin = None
        assert process.poll() is None
        process.kill()


def test_at_a_terminal_keys_go_to_the_board_as_they_are_typed(cli: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("import sys\nprint('ready')\nprint([sys.stdin.read(1)])\n")
    cli("deploy", mine)
    with (
        pseudo_terminal() as (ours, theirs),
        start("run", mine, "--port", cli.board.port, stdin=theirs) as process,
    ):
        read_until(out(process), "ready")
        os.write(ours, b"x")
        read_until(out(process), "['x']")
        process.kill()


def test_run_ends_when_the_board_disconnects(cli: Cli, mine: Path) -> None:
    with start("run", mine, "--port", cli.board.port) as process:
        read_until(out(process), "the program runs")
        cli.board.power_off()
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        complaints = process.stderr.read()
    assert "disconnected" in complaints
    assert "Traceback" not in complaints


def test_another_board_than_was_deployed_is_not_run(cli: Cli) -> None:
    said = cli("run", "rp2_pico_w")
    assert said.code == 1
    assert "has mine, not rp2_pico_w" in said.err


def test_a_board_whose_deploy_was_interrupted_is_not_run(cli: Cli, mine: Path) -> None:
    with BoardConnection(cli.board.port) as connection:
        connection.run("import os\nos.rename('/main.py', '/main.py.off')")
    said = cli("run", mine)
    assert said.code == 1
    assert "was interrupted, so no program starts: repeat it" in said.err


def test_the_unix_board_runs_in_the_foreground_and_has_room_for_a_ledger(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(find_board("unix"), mine)
    with (mine / "settings.py").open("a") as file:
        file.write('LEDGER = "http://127.0.0.1:1"\n')
    with start("run", "unix", "--flash", tmp_path / "flash.img") as board:
        port = read_until(out(board), "\n").partition("mpremote connect ")[2].split()[0]
        with start("deploy", mine, "--source", "--port", port) as deploy:
            said, complaints = deploy.communicate(timeout=PATIENCE)
        assert (deploy.returncode, complaints) == (0, "")
        assert "(1 of " in said
        with start("status", "--json", "--port", port) as status:
            said, _ = status.communicate(timeout=PATIENCE)
        assert json.loads(said)["spent"] == 0
        board.send_signal(signal.SIGINT)
        assert board.wait(PATIENCE) == 0
