"""Make a folder for a board of one's own: a copy of one of the package, with own settings."""

import re
from dataclasses import dataclass
from pathlib import Path

from budget_core.config import DailyBudgetConfig
from budget_cpython.board.check import RULES
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files, known_boards

SETTINGS = "settings.py"
SECRETS = "secret.py"
_NOT_COPIED = ("manifest.py", "README.md", SETTINGS, SECRETS)  # these are of the package's folder
_MOST_NAME_BYTES = 32  # of a Wi-Fi
_PASSWORD_CHARS = range(8, 64)


@dataclass
class Answers:
    """The answers for a new folder; `wifi_name` is `None` for a board without Wi-Fi."""

    board: str
    base_url: str
    model: str
    daily_tokens: int
    api_key: str = ""
    wifi_name: str | None = None
    wifi_password: str = ""

    @property
    def missing(self) -> list[str]:
        """The secrets without which the board cannot answer."""
        key = ["API_KEY"] if self.base_url.startswith("https") and not self.api_key else []
        return key + (["WIFI_NAME"] if self.wifi_name == "" else [])


def has_wifi(board: str) -> bool:
    """Return whether the program of a board joins a Wi-Fi."""
    return "WIFI_NAME" in board_files(known_boards()[board])["secret_example.py"].read_text("utf-8")


def defaults_of(board: str) -> dict[str, str]:
    """Return values of a board's settings that are texts, by name."""
    text = board_files(known_boards()[board])[SETTINGS].read_text("utf-8")
    return dict(re.findall(r'^([A-Z_]+) = "(.*)"$', text, re.MULTILINE))


def check_new(folder: Path) -> None:
    """Raise `UsageError` if there is something that a new folder would replace."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists: name a new or an empty folder")


def check_board_name(text: str) -> str:
    """Return the name of a board of the package; `ValueError` if there is none of that name."""
    if text not in known_boards():
        raise ValueError(f"there is no board {text!r}; choose one of {', '.join(known_boards())}")
    return text


def check_base_url(text: str) -> str:
    """Return the URL of an endpoint; `ValueError` if it is malformed."""
    try:
        RULES["BASE_URL"](text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return text


def check_model(text: str) -> str:
    """Return the name of a model; `ValueError` if it is empty or has blanks at its ends."""
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is not the name of a model: give it as the provider does")
    return text


def check_tokens(text: str) -> int:
    """Return a number of tokens; `ValueError` if it is none."""
    digits = text.replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit() and int(digits)):
        raise ValueError(f"{text!r} is not a number of tokens: give one of 1 or more, as in 50000")
    DailyBudgetConfig(int(digits))
    return int(digits)


def check_key(text: str) -> str:
    """Return an API key; `ValueError`, without the key, if no header could have it."""
    RULES["API_KEY"](text)
    return text


def check_wifi_name(text: str) -> str:
    """Return the name of a Wi-Fi, or an empty text; `ValueError` if it is too long."""
    if (size := len(text.encode())) > _MOST_NAME_BYTES:
        raise ValueError(f"{text!r} has {size} bytes: the name of a Wi-Fi has at most 32")
    return text


def check_wifi_password(text: str) -> str:
    """Return a password, empty for an open Wi-Fi; `ValueError`, without it, for another length."""
    if text and len(text) not in _PASSWORD_CHARS:
        raise ValueError(f"the password has {len(text)} characters: that of a Wi-Fi has 8 to 63")
    return text


def make_folder(folder: Path, answers: Answers, secrets: bytes | None = None) -> list[str]:
    """Make the folder; return the names of its files. `secrets` are taken instead of the answers'.

    `secret.py` can be read by its owner only, and git ignores it.
    """
    check_new(folder)
    files = board_files(known_boards()[answers.board])
    made = {name: path.read_bytes() for name, path in files.items() if name not in _NOT_COPIED}
    made[SETTINGS] = _settings(files[SETTINGS].read_text("utf-8"), answers).encode()
    made[".gitignore"] = f"{SECRETS}\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (folder / name).write_bytes(data)
    secret = folder / SECRETS
    secret.touch(0o600)
    secret.write_bytes(_secrets(answers) if secrets is None else secrets)
    return sorted([*made, SECRETS])


def _settings(text: str, answers: Answers) -> str:
    values: dict[str, object] = {
        "DAILY_BUDGET": answers.daily_tokens,
        "BASE_URL": answers.base_url,
        "MODEL": answers.model,
    }
    ahead = re.search(r"^WRITE_AHEAD = ([\d_]+)$", text, re.MULTILINE)
    if ahead and answers.daily_tokens < 10 * int(ahead[1]):
        values["WRITE_AHEAD"] = answers.daily_tokens // 10  # else a power cut costs the day
    for name, value in values.items():
        before, found, after = re.split(rf"^({name} = ).*$", text, maxsplit=1, flags=re.MULTILINE)
        text = f"{before}{found}{_literal(value)}{after}"
    return text


def _literal(value: object) -> str:
    if isinstance(value, int):
        return f"{value:_}"
    text = repr(value)
    return text if '"' in text else f'"{text[1:-1]}"'


def _secrets(answers: Answers) -> bytes:
    values = {"API_KEY": answers.api_key}
    if answers.wifi_name is not None:
        wifi = {"WIFI_NAME": answers.wifi_name, "WIFI_PASSWORD": answers.wifi_password}
        values = wifi | values
    lines = [f"{name} = {_literal(value)}\n" for name, value in values.items()]
    return "".join(['"""The secrets of this board, which git ignores."""\n\n', *lines]).encode()
