"""`microbudget board new`."""

import argparse
import getpass
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from budget_cpython.board.errors import UsageError
from budget_cpython.cli.board.command import command

_BASE_URL, _MODEL, _TOKENS = "https://api.openai.com/v1", "gpt-4o-mini", "50000"
_WIFI = ("wifi-name", "wifi-password")
_SECRETS = ("api-key", *_WIFI)
_T = TypeVar("_T")


@command(
    "FOLDER --board --base-url --model --daily-tokens --api-key --wifi-name --wifi-password "
    "--secrets --yes"
)
def new(options: argparse.Namespace) -> int:
    """Make a folder for a board of your own.

    Asks which board it is, for the endpoint and its key, the tokens of a day and the Wi-Fi, and
    writes the programs, settings.py, secret.py, and a .gitignore that keeps secret.py out of
    version control. An option answers a question beforehand; other users of this machine may see
    what its options are, so secrets are better typed, or copied with --secrets.

    examples:
      microbudget board new my_board
      microbudget board new my_board --yes
      microbudget board new garden --board rp2_pico_2_w --secrets secret.py
    """
    from budget_cpython.board import new_folder as new
    from budget_cpython.board.check import check_board
    from budget_cpython.board.secret_file import read_secrets

    folder: Path = options.folder
    new.check_new(folder)
    secrets = None if options.secrets is None else read_secrets(options.secrets).data
    ask = _Questions(options)
    board = ask("board", "Which board", "unix", new.check_board_name)
    has_wifi = new.has_wifi(board)
    ask.forbid(_SECRETS if secrets else (), "the secrets are those of --secrets")
    ask.forbid(() if has_wifi else _WIFI, f"the board {board} has no Wi-Fi")
    local = new.defaults_of(board) if board == "unix" else {}
    url = ask("base-url", "Endpoint", local.get("BASE_URL", _BASE_URL), new.check_base_url)
    model = ask("model", "Model", local.get("MODEL", _MODEL), new.check_model)
    tokens = ask("daily-tokens", "Tokens of a day", _TOKENS, new.check_tokens)
    answers = new.Answers(board, url, model, tokens)
    if secrets is None:
        answers.api_key = ask("api-key", "API key", "", new.check_key, True)
        if has_wifi:
            answers.wifi_name = ask("wifi-name", "Name of the Wi-Fi", "", new.check_wifi_name)
        if answers.wifi_name:
            say = "Password of the Wi-Fi"
            answers.wifi_password = ask("wifi-password", say, "", new.check_wifi_password, True)
        else:
            ask.forbid(_WIFI[1:], "it has no name of a Wi-Fi: give --wifi-name too")
    files = new.make_folder(folder, answers, secrets)
    check_board(folder)
    print(f"made {folder}: {', '.join(files)}")
    _say_what_is_next(folder, [] if secrets else answers.missing)
    return 0


def _say_what_is_next(folder: Path, missing: list[str]) -> None:
    path = str(folder) if folder.is_absolute() else f"./{folder}"
    if missing:
        print(f"fill in {' and '.join(missing)} in {path}/secret.py")
    secret, path = shlex.quote(f"{path}/secret.py"), shlex.quote(path)
    print("next, with the board connected:")
    print(f"  microbudget board deploy {path} --secrets {secret}")
    print(f"  microbudget board run {path}")


class _Questions:
    """Asks a question unless an option has answered it, or `--yes` takes its default."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._given = vars(options)
        self._asks = not options.yes

    def __call__(
        self,
        option: str,
        question: str,
        default: str,
        check: Callable[[str], _T],
        hidden: bool = False,
    ) -> _T:
        """Return the checked answer; a wrong one is asked again, a wrong option `UsageError`."""
        given = self._given[option.replace("-", "_")]
        if given is None and not self._asks:
            given = default
        if given is not None:
            try:
                return check(given)
            except ValueError as error:
                raise UsageError(f"--{option}: {error}") from None
        prompt = f"{question} [{default}]: " if default else f"{question} (none): "
        while True:
            try:
                return check(_typed(prompt, hidden).strip() or default)
            except ValueError as error:
                print(f"error: {error}")
            except EOFError:
                raise UsageError(
                    f"no answer to {question!r}: give --{option}, or --yes for the defaults"
                ) from None

    def forbid(self, options: tuple[str, ...], why: str) -> None:
        """Raise `UsageError` if one of the options was given."""
        for option in options:
            if self._given[option.replace("-", "_")] is not None:
                raise UsageError(f"--{option}: {why}")


def _typed(prompt: str, hidden: bool) -> str:
    if hidden and sys.stdin.isatty():
        return getpass.getpass(prompt)
    return input(prompt)
