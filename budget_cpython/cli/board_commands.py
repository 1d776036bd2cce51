"""Do what `microbudget board` was told, a function a command; each returns the exit code."""

import argparse
import json
import select
import sys

from budget_cpython.board import state
from budget_cpython.board.catalogue import about, find_board, known_boards
from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.cli import drop_output


def list_board(options: argparse.Namespace) -> int:
    """Show the boards and the ports."""
    boards = known_boards()
    width = max(map(len, boards), default=0)
    print("boards")
    for name, folder in boards.items():
        print(f"  {name:{width}}  {about(folder)}".rstrip())
    from budget_cpython.board.ports import serial_ports
    from budget_cpython.board.session import what_is_on

    ports = serial_ports()
    print("serial ports" if ports else "no serial port found")
    for port, what in ports.items():
        found = f": {what_is_on(port)}" if options.probe else ""
        print(f"  {port}  {what}{found}".rstrip())
    return 0


def deploy_board(options: argparse.Namespace) -> int:
    """Copy to a board what differs there."""
    from budget_cpython.board.build import Form, build_board
    from budget_cpython.board.check import check_board, check_rooms, check_secrets
    from budget_cpython.board.deploy import Deploy, secrets_missing, state_lost
    from budget_cpython.board.session import work_on

    board = find_board(options.board)
    check_rooms(board, options.without)
    needs_secrets = check_board(board)
    secrets = None if options.secrets is None else check_secrets(options.secrets)
    build = build_board(board, Form(options.form), options.without)
    with work_on(options.port, restart=not options.no_reset) as device:
        device.with_room(lambda: Deploy(device, build, _say, secrets).run())
        if folder := device.with_room(lambda: state_lost(device)):
            _say(
                f"the budget's state in {folder} is gone: the board counts its day as spent; "
                "`microbudget board reset` makes a new one"
            )
        example = board / "secret_example.py"
        if needs_secrets and example.is_file() and secrets_missing(device):
            _say(
                f"the board has no /secret.py: fill in a copy of {example} and deploy it with "
                "--secrets"
            )
    return 0


def run_board(options: argparse.Namespace) -> int:
    """Start the program of a board, and join the terminal to it."""
    try:
        import termios  # noqa: F401 - what follows needs it, and one system has none
    except ImportError:
        raise BoardError(
            "`board run` needs a terminal as Linux and macOS have it: elsewhere use "
            "`mpremote connect PORT repl`"
        ) from None
    if options.board == "unix" and options.port is None:
        return _run_unix(options)
    name = find_board(options.board).name
    from budget_cpython.board.device import Device
    from budget_cpython.board.link import Link
    from budget_cpython.board.ports import choose_port
    from budget_cpython.board.watch import watch

    with Link(choose_port(options.port)) as link:
        device = Device(link)
        deployed = device.with_room(lambda: state.deployed_board(device))
        link.restart()
        if deployed != name:
            raise BoardError(
                f"the board at {link.port} has {deployed or 'nothing of microbudget'} and not "
                f"{name} on it: deploy it first, or choose another port"
            )
        watch(link)
    print("\nnot watched any more; the program runs on", file=sys.stderr)
    return 0


def status_board(options: argparse.Namespace) -> int:
    """Show what the budget stands at; 1 for a damaged state."""
    report = _report(options.port)
    print(json.dumps(report) if options.json else "\n".join(state.lines(report)))
    return 1 if state.is_damaged(report) else 0


def reset_board(options: argparse.Namespace) -> int:
    """Forget what was spent."""
    from budget_cpython.board.session import work_on

    with work_on(options.port) as device:
        _agree(state.what_is_lost(state.report_of(device)), options.yes)
        state.reset(device)
        print("\n".join(state.lines(state.report_of(device))))
    return 0


def pull_board(options: argparse.Namespace) -> int:
    """Copy the state from a board."""
    folder = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already: name a new or an empty folder")
    from budget_cpython.board.session import work_on

    with work_on(options.port) as device:
        count = device.with_room(lambda: state.pull(device, folder))
    print(f"copied {count} files to {folder}")
    return 0


def push_board(options: argparse.Namespace) -> int:
    """Copy a state to a board."""
    files = state.check_pulled(options.folder)
    from budget_cpython.board.session import work_on

    with work_on(options.port) as device:
        _agree(state.what_is_lost(state.report_of(device)), options.yes)
        device.with_room(lambda: state.push(device, options.folder, files))
        print(f"copied {len(files)} files to the board")
        print("\n".join(state.lines(state.report_of(device))))
    return 0


def _run_unix(options: argparse.Namespace) -> int:
    try:
        from budget_cpython.board.emulator import run
    except ImportError:
        raise BoardError("the unix board needs: pip install 'microbudget[board]'") from None
    try:
        return run(options)
    except (ValueError, OSError, RuntimeError) as error:
        raise BoardError(f"the unix board: {error}") from None


def _report(port: str | None) -> dict[str, object]:
    from budget_cpython.board.session import work_on

    with work_on(port) as device:
        return state.report_of(device)


def _say(line: str) -> None:
    """Tell of a step; the work goes on where nobody reads that any more."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        drop_output()


def _agree(loss: str, yes: bool) -> None:
    """Say what will be lost, and go on only where that is meant."""
    print(f"{loss[0].upper()}{loss[1:]}.", flush=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing was done: say --yes to do it without being asked")
    if _answer("Do it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise BoardError("nothing was done")


def _answer(question: str) -> str:
    """Return a line typed at the terminal.

    Waited for in short turns: a signal that comes just before `input` would wait for the line too.
    """
    print(question, end="", flush=True)
    while sys.platform != "win32" and not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    return sys.stdin.readline()
