"""The matrix in docs/adapters.md: which features of an adapter are tested, and with what versions.

A row has a cell for each feature: a tick if a test of it passed with the lowest and the newest
version of the SDK, a version if it passed with that one only, "n/a" if it does not apply, "no" if
the framework cannot express it, and nothing if it is not tested. Run by itself, this brings
versions and reasons up to date.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suites import ROOT

FEATURES: Final = (
    "notice",
    "tool withdrawal",
    "fallback",
    "reserved final call",
    "refusal",
    "wait",
    "stream",
    "broken stream",
    "abort",
    "deadline",
    "parallel tools",
    "child agents",
    "retries",
)
VERSIONS: Final = ("lowest", "newest")
TICK, NOT_APPLICABLE, NO = "✓", "n/a", "no"
PAGE: Final = ROOT / "docs/adapters.md"
REASONS: Final = ROOT / "tests/adapters/features.toml"
_GENERATED: Final = re.compile(r"(<!-- matrix -->\n).*(<!-- end of the matrix -->\n)", re.DOTALL)
_KINDS: Final = {
    "does-not-apply": (NOT_APPLICABLE, "does not apply"),
    "cannot": (NO, "not possible"),
}

Passed = Mapping[str, set[str]]  # features by version
_ROOMS = ("frameworks", "http", "run")  # of budget_cpython, where adapters lie


def adapters() -> dict[str, dict[str, str]]:
    """Return the adapters' names, each with the lowest and the newest version of its SDK."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    found: dict[str, dict[str, str]] = {}
    for group, packages in groups.items():
        _, _, name = group.partition("adapter-")
        adapter, _, version = name.rpartition("-")
        if version in VERSIONS:
            found.setdefault(adapter, {})[version] = packages[0].rpartition("==")[2]
    return found


def guide(adapter: str) -> Path:
    """Return the page of an adapter."""
    return PAGE.parent / "sdks" / f"{adapter.replace('-', '_')}.md"


def test_files(adapter: str) -> list[Path]:
    """Return the files with the tests of an adapter: `test_NAME.py`, `test_NAME_ANYTHING.py`."""
    return _files_of(adapter, "tests/adapters/test_")


def modules(adapter: str) -> list[Path]:
    """Return the modules of an adapter: `NAME.py`, or those of a folder of that name.

    Raises `LookupError` if there is none.
    """
    name = adapter.replace("-", "_")
    package = ROOT / "budget_cpython"
    found = [path for path in package.rglob(f"{name}.py") if path.parent.name in _ROOMS]
    found += (package / "adapters/frameworks" / name).glob("*.py")
    if not found:
        raise LookupError(f"the adapter {adapter} has no module")
    return sorted(found)


def _files_of(adapter: str, start: str) -> list[Path]:
    names = [name.replace("-", "_") for name in adapters()]
    found = []
    for path in sorted(ROOT.glob(f"{start}*.py")):
        rest = str(path.relative_to(ROOT).with_suffix("")).removeprefix(start)
        owners = [name for name in names if f"{rest}_".startswith(name + "_")]
        if owners and max(owners, key=len) == adapter.replace("-", "_"):
            found.append(path)
    return found


def reasons(adapter: str) -> dict[str, tuple[str, str, str]]:
    """Return sign, words and reason of each feature that an adapter does not have."""
    table = tomllib.loads(REASONS.read_text()).get(adapter, {})
    return {
        feature: (*_KINDS[kind], reason)
        for kind, rows in table.items()
        for feature, reason in rows.items()
    }


def cells(page: str) -> dict[str, list[str]]:
    """Return the cells of each adapter in a page."""
    found = _GENERATED.search(page)
    rows = re.findall(
        r"^\| \[(\S+)\]\S+ \| [^|]* \|(.*)\|$", found[0] if found else "", re.MULTILINE
    )
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


def updated(page: str, passed: Mapping[str, Passed]) -> str:
    """Return a page with what passed, by adapter and version; other adapters stay as they are."""
    known = cells(page)
    known |= {adapter: _cells(adapter, by_version) for adapter, by_version in passed.items()}
    lines = [_row("adapter", "versions", *FEATURES), _row(*["---"] * (len(FEATURES) + 2))]
    notes = []
    for adapter, versions in adapters().items():
        tested = known.get(adapter, [""] * len(FEATURES))
        lacks = reasons(adapter)
        shown = [
            lacks[name][0] if name in lacks else "" if cell in (NOT_APPLICABLE, NO) else cell
            for name, cell in zip(FEATURES, tested, strict=True)
        ]
        span = " to ".join(versions[version] for version in VERSIONS)
        own_page = guide(adapter).relative_to(PAGE.parent)
        lines.append(_row(f"[{adapter}]({own_page})", span, *shown))
        notes += [f"- {adapter}, {name}: {said}. {why}" for name, (_, said, why) in lacks.items()]
    text = "\n".join(["", *lines, "", *notes, *([""] if notes else []), ""])
    return _GENERATED.sub(lambda match: match[1] + text + match[2], page)


def _cells(adapter: str, passed: Passed) -> list[str]:
    versions = adapters()[adapter]
    found = []
    for feature in FEATURES:
        having = [versions[version] for version in VERSIONS if feature in passed.get(version, ())]
        found.append(TICK if len(having) == len(VERSIONS) else "".join(having))
    return found


def _row(*texts: str) -> str:
    return "| " + " | ".join(texts) + " |"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(), {}))
