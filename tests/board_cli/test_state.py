"""Looking at the state of a board, forgetting it, and copying it there and back."""

import json
import os
import pty
import time
from pathlib import Path
from typing import Any

from .support import PATIENCE, Cli, digests, spend, start, write


def state_of(cli: Cli) -> dict[str, str]:
    found = digests(cli.board)
    return {path: found[path] for path in found if path.startswith("/budget/")}


def status(cli: Cli) -> dict[str, Any]:
    said = cli("status", "--json")
    found = json.loads(said.out)
    assert said.out.count("\n") == 1
    assert isinstance(found, dict)
    return found


def damage(cli: Cli) -> None:
    for path in state_of(cli):
        if path.endswith("/state.json"):
            write(cli.board, path, "x" * 128)


def test_status_says_what_the_device_holds(cli: Cli) -> None:
    spend(cli.board, 1234)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    said = cli("status")
    assert said.code == 0
    rows = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert rows["spent"] == "1,234 tokens of 50,000"
    assert rows["left"] == "48,766 tokens"
    assert rows["day"] == day
    assert rows["slots"].startswith("newest, empty")
    assert rows["resets"].endswith(" 00:00 UTC")
    assert rows["clock"] == "trusted"
    assert rows["heap"].endswith(" free")
    assert len({line.index(line.split()[1]) for line in said.out.splitlines()}) == 1


def test_as_json_it_says_the_same(cli: Cli) -> None:
    spend(cli.board, 1234)
    found = status(cli)
    assert (found["spent"], found["left"], found["cap"]) == (1234, 48766, 50000)
    assert found["slots"] == ["newest", "empty", "empty"]
    assert found["error"] is None


def test_a_damaged_state_is_an_exit_code_of_1(cli: Cli) -> None:
    spend(cli.board, 1234)
    damage(cli)
    said = cli("status")
    assert said.code == 1
    rows = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert rows["spent"] == "50,000 tokens of 50,000"
    assert set(rows["slots"].split(", ")) == {"damaged"}
    assert "/budget" in rows["damaged"]
    assert cli("status", "--json").code == 1


def test_with_nothing_deployed_it_says_so(new_cli: Cli) -> None:
    said = new_cli("status")
    assert said.code == 1
    assert said.out == ""
    assert "no microbudget is on the board" in said.err
    assert "deploy it first" in said.err


def test_reset_forgets_what_was_spent(cli: Cli) -> None:
    spend(cli.board, 1234)
    said = cli("reset", "--yes")
    assert said.code == 0
    assert said.out.startswith("The board's count of 1,234 tokens spent is lost.\n")
    assert status(cli)["spent"] == 0


def test_reset_mends_a_damaged_state(cli: Cli) -> None:
    damage(cli)
    assert cli("reset", "--yes").code == 0
    assert cli("status").code == 0


def test_unasked_it_resets_nothing(cli: Cli) -> None:
    spend(cli.board, 1234)
    before = state_of(cli)
    with start("reset", "--port", cli.board.port) as process:
        _, complaints = process.communicate("", PATIENCE)
    assert process.returncode == 2
    assert complaints == "error: nothing was done: say --yes to do it without being asked\n"
    assert state_of(cli) == before


def test_at_a_terminal_it_asks(cli: Cli) -> None:
    spend(cli.board, 1234)
    for answer, spent in (("n", 1234), ("y", 0)):
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode() + b"\n")
        with start("reset", "--port", cli.board.port, stdin=theirs) as process:
            said, _ = process.communicate(timeout=PATIENCE)
        os.close(ours)
        os.close(theirs)
        assert "Do it? [y/N]" in said
        assert status(cli)["spent"] == spent


def test_a_state_that_was_pulled_can_be_pushed_back(cli: Cli, tmp_path: Path) -> None:
    spend(cli.board, 1234)
    before = state_of(cli)
    assert (
        cli("pull", tmp_path / "saved").out
        == f"copied {len(before)} files to {tmp_path / 'saved'}\n"
    )
    assert cli("reset", "--yes").code == 0
    pushed = cli("push", tmp_path / "saved", "--yes")
    assert pushed.code == 0
    assert pushed.out.startswith("The board's count of 0 tokens spent is lost.\n")
    assert state_of(cli) == before
    assert status(cli)["spent"] == 1234


def test_a_pull_replaces_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    said = cli("pull", tmp_path)
    assert said.code == 2
    assert f"{tmp_path} is there already" in said.err


def test_a_push_without_yes_replaces_nothing(cli: Cli, tmp_path: Path) -> None:
    cli("pull", tmp_path / "saved")
    spend(cli.board, 1234)
    before = state_of(cli)
    with start("push", tmp_path / "saved", "--port", cli.board.port) as process:
        process.communicate("", PATIENCE)
    assert process.returncode == 2
    assert state_of(cli) == before


def test_what_is_damaged_or_incomplete_is_not_pushed(cli: Cli, tmp_path: Path) -> None:
    spend(cli.board, 1234)
    spend(cli.board, 1)
    saved = tmp_path / "saved"
    cli("pull", saved)
    before = state_of(cli)
    whole = (saved / "0/state.json").read_bytes()
    for wrong in (b"x" * 128, whole[:100], b""):
        (saved / "0/state.json").write_bytes(wrong)
        said = cli("push", saved, "--yes")
        assert said.code == 1
        assert "not pushed" in said.err
    (saved / "0/state.json").unlink()
    said = cli("push", saved, "--yes")
    assert "has no 0/state.json" in said.err
    assert state_of(cli) == before
