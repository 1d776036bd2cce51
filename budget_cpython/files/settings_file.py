"""Read settings: TOML files, and secrets that they name."""

import os
import tomllib
from collections.abc import Mapping
from typing import Any

_LONGEST = 16_384  # characters


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables of a file; `ValueError` if it is not TOML, `OSError`."""
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path!r} is not TOML: {error}") from error


def tables_of(said: Mapping[str, Any], name: str, key: str = "NAME") -> dict[str, dict[str, Any]]:
    """Return the tables `[name."KEY"]` of a file by their keys; `ValueError` if they are others."""
    found = said.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
        raise ValueError(f'{name} must be tables such as [{name}."{key}"]')
    return found


def read_secret(what: str, source: str) -> str:
    """Return a secret from `@FILE` or `env:VARIABLE`, which keeps it out of the list of processes.

    Raises `ValueError`, which does not show `source` where it may be the secret itself; `OSError`.
    """
    if source.startswith("@"):
        with open(source[1:], encoding="utf-8") as file:
            secret = file.read(_LONGEST).strip()
    elif source.startswith("env:"):
        secret = os.environ.get(source[4:], "").strip()
    else:
        raise ValueError(f"{what} is @FILE or env:VARIABLE, so that it stays hidden")
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ValueError(f"{what} is not in {source[:200]}")
    return secret
