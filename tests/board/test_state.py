"""Forgetting the state of a board, and copying it there and back."""

import os
from pathlib import Path

from .support import PATIENCE, Cli, damage, pseudo_terminal, spend, start, state_of, status


def test_reset_forgets_what_was_spent(cli: Cli) -> None:
    spend(cli.board, 1234)
    said = cli("reset", "--yes")
    assert said.code == 0
    assert said.out.startswith("The board's count of 1,234 tokens spent is lost.\n")
    assert status(cli)["spent"] == 0


def test_reset_replaces_a_damaged_state(cli: Cli) -> None:
    damage(cli)
    assert cli("reset", "--yes").code == 0
    assert cli("status").code == 0


def test_reset_without_a_terminal_needs_yes(cli: Cli) -> None:
    spend(cli.board, 1234)
    before = state_of(cli)
    with start("reset", "--port", cli.board.port) as process:
        _, complaints = process.communicate("", PATIENCE)
    assert process.returncode == 2
    assert complaints == "error: nothing was done: give --yes to skip the question\n"
    assert state_of(cli) == before


def test_at_a_terminal_it_asks(cli: Cli) -> None:
    spend(cli.board, 1234)
    for answer, spent in (("n", 1234), ("y", 0)):
        with (
            pseudo_terminal() as (ours, theirs),
            start("reset", "--port", cli.board.port, stdin=theirs) as process,
        ):
            os.write(ours, answer.encode() + b"\n")
            said, _ = process.communicate(timeout=PATIENCE)
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
    assert f"{tmp_path} exists" in said.err


def test_a_push_without_yes_replaces_nothing(cli: Cli, tmp_path: Path) -> None:
    cli("pull", tmp_path / "saved")
    spend(cli.board, 1234)
    before = state_of(cli)
    with start("push", tmp_path / "saved", "--port", cli.board.port) as process:
        process.communicate("", PATIENCE)
    assert process.returncode == 2
    assert state_of(cli) == before


def test_a_damaged_or_incomplete_state_is_not_pushed(cli: Cli, tmp_path: Path) -> None:
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
