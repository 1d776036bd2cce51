"""Say which version this is."""

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path


@cache
def version() -> str:
    """Return the version that is installed, or the one in a checkout's `pyproject.toml`."""
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])
    return metadata.version("microbudget")
