"""The checks of this machine: the file of keys, the list of prices, and what is installed."""

import os
import re
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path

from budget_core.errors import BudgetError
from budget_cpython.finding import Finding, fails, not_run, ok, warning
from budget_cpython.version import version

_DAY_S = 86_400
_OLD_DAYS = 60
_NEEDED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?>=(?P<least>[0-9.]+)")


def check_keys(path: str | None) -> Finding:
    """Check that the file of keys can be read, and that only its owner may write it."""
    if not path:
        return not_run("no file of keys: give --keys, or set $MICROBUDGET_KEYS")
    try:
        from budget_cpython.web.keys import KeyFile

        count = len(KeyFile(path).keys())
    except ModuleNotFoundError as error:
        return not_run(f"{error}: pip install 'microbudget[serve]'")
    except (BudgetError, OSError) as error:
        return fails(str(error), f"correct it, or make keys with `serve key add … --keys {path}`")
    if not count:
        fix = f"microbudget serve key add NAME --account PATH --keys {path}"
        return warning(f"{path} has no key: a service refuses every request", fix)
    mode = os.stat(path).st_mode & 0o777
    if mode & 0o077:
        return warning(f"{path} has the mode {mode:04o}", f"chmod 600 {path}")
    return ok(f"{count} key{'s' * (count != 1)} in {path}")


def check_prices(now: int) -> Finding:
    """Check how old the list of prices is: models that came later have no price there."""
    spec = util.find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return not_run("no list of prices: limits on dollars need `microbudget[prices]`")
    data = Path(spec.origin).with_name("data.py")
    days = int(max(0, now - (data if data.exists() else Path(spec.origin)).stat().st_mtime))
    days //= _DAY_S
    found = f"genai-prices {metadata.version('genai-prices')}, installed {days} days ago"
    if days > _OLD_DAYS:
        return warning(f"{found}: newer models have no price", "pip install -U genai-prices")
    return ok(found)


def check_versions() -> Finding:
    """Check the packages of the extras that are installed against what these need."""
    found, old = [], []
    for name, least in sorted(_needed().items()):
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        found.append(f"{name} {have}")
        if _numbers(have) < _numbers(least):
            old.append(f"{name}>={least}")
    python = ".".join(map(str, sys.version_info[:3]))
    text = f"microbudget {version()}, Python {python}"
    if old:
        named = " ".join(f"'{one}'" for one in old)
        return fails(f"{text}; too old for this version: {', '.join(old)}", f"pip install {named}")
    return ok(", ".join([text, *found]))


def _needed() -> dict[str, str]:
    """Return the lowest version of each package that an extra needs."""
    project = Path(__file__).resolve().parents[3] / "pyproject.toml"
    if project.is_file():
        said = tomllib.loads(project.read_text("utf-8"))["project"]
        rows = [row for extra in said["optional-dependencies"].values() for row in extra]
    else:
        rows = metadata.requires("microbudget") or []
    return {match["name"]: match["least"] for row in rows if (match := _NEEDED.match(row))}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", text)[:3])
