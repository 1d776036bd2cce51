"""A board's secrets: checked before a deploy; their values are in no output."""

import ast
from dataclasses import dataclass
from pathlib import Path

from budget_cpython.board.check import RULES
from budget_cpython.board.device import Device
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files
from budget_cpython.board.programs import parsed

EXAMPLE = "secret_example.py"
_KEY = "API_KEY"
_URL = "BASE_URL"
_WIFI, _PASSWORD = "WIFI_NAME", "WIFI_PASSWORD"
_CHECKED = (_KEY, "LEDGER_KEY", _URL)
_BASE_URL = """
import json
try:
    import secret
except ImportError:
    secret = None
print(json.dumps(getattr(secret, "BASE_URL", "")))
"""


@dataclass(frozen=True)
class SecretFile:
    """A file of secrets on this machine: its bytes, and the values that it assigns to names."""

    path: Path
    data: bytes
    values: dict[str, object]
    lines: dict[str, int]

    @property
    def base_url(self) -> str:
        """The endpoint that it names instead of the settings', or an empty text."""
        return str(self.values.get(_URL, ""))

    def unfilled(self, board: Path, url: str) -> list[str]:
        """Return the lines that are still those of the board's example, each with its fix.

        An empty key is right for an http endpoint, and an empty password for an open Wi-Fi.
        """
        path = board_files(board).get(EXAMPLE)
        if path is None:
            return []
        example = read_secrets(path).values
        return [
            f"{self.path}, line {self.lines[name]}: {name} is still that of {EXAMPLE}: fill it in"
            for name, value in self.values.items()
            if name in example
            and example[name] == value
            and (name != _KEY or url.startswith("https"))
            and (name != _PASSWORD or value or not self.values.get(_WIFI))
        ]


def read_secrets(path: Path) -> SecretFile:
    """Return a file with secrets; an error shows only the line number."""
    if not path.is_file():
        raise UsageError(f"there is no file {path} with secrets")
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for node in parsed(path, secret=True).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                values[name], lines[name] = value, node.lineno
                _check(path, name, value, node.lineno)
    return SecretFile(path, path.read_bytes(), values, lines)


def _check(path: Path, name: str, value: object, line: int) -> None:
    if not isinstance(value, str) or not value or name not in _CHECKED:
        return
    try:
        RULES[name](value)
    except ValueError as error:
        raise UsageError(f"{path}, line {line}: {name}: {error}") from None


def deployed_url(device: Device) -> str:
    """Return the endpoint that the secrets on a board name, or an empty text."""
    return str(device.ask(_BASE_URL))
