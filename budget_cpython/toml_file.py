"""Read a TOML file."""

import tomllib
from typing import Any


def read_toml(path: str) -> dict[str, Any]:
    """Return the tables of a file; `ValueError` if it is not TOML, `OSError`."""
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path!r} is not TOML: {error}") from error
