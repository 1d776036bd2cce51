"""docs/figures.md: what the benchmarks last measured, a section for each group."""

import os
import platform
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from benchmarks.figures import Figure, show
from benchmarks.mpy import ROOT, find_micropython, run_micropython
from budget_cpython.version import version

PAGE = ROOT / "docs/figures.md"
REPEATABLE = ("code", "heap")  # the same on every machine, so a test measures them again
MAX_DIFFERENCE = 0.15
OPTIONAL = ", 32-bit"  # not every machine can run the 32-bit port
_INTRODUCTION = """\
# Figures

`make bench` writes this page: it replaces the section of each group that it measures in full.
Targets are upper bounds; below its table a section says why one is missed or was retired. Times
depend on the machine, so compare the ratios: both sides of each were measured in one run. The
sections {repeatable} do not depend on the machine's speed: `make test` measures them
again, and fails where one is off by more than {percent} %. It also fails where a figure of
[code](#code), or the first one of [start](#start), is above its target.
"""


def write(groups: Mapping[str, Sequence[Figure]], known: Collection[str], page: Path) -> None:
    """Replace or add the sections of `groups`, and drop those of groups not in `known`."""
    sections = _sections(page)
    for name, figures in groups.items():
        sections[name] = _section(name, figures)
    repeatable = " and ".join(f"[{name}](#{name})" for name in REPEATABLE)
    percent = round(MAX_DIFFERENCE * 100)
    head = _INTRODUCTION.format(repeatable=repeatable, percent=percent)
    page.write_text("\n".join([head, *(sections[name] for name in known if name in sections)]))


def read(page: Path) -> dict[str, dict[str, float]]:
    """Return each section's values by the figure's name."""
    row = re.compile(r"^\| (.+?) \| ([\d,.]+)\b.*$", re.MULTILINE)
    return {
        name: {found[1]: float(found[2].replace(",", "")) for found in row.finditer(text)}
        for name, text in _sections(page).items()
    }


def bounds(page: Path) -> dict[str, dict[str, float]]:
    """Return each section's targets by the figure's name, where it has one."""
    row = re.compile(r"^\| (.+?) \| [^|]+ \| ≤ ([\d,.]+)\b", re.MULTILINE)
    return {
        name: {found[1]: float(found[2].replace(",", "")) for found in row.finditer(text)}
        for name, text in _sections(page).items()
    }


def beyond(most: Mapping[str, float], figures: Sequence[Figure]) -> list[str]:
    """Return the figures above their bounds, and those whose bound the page has otherwise."""
    return [
        f"{one.name}: {show(one.value, one.unit)}, where {most.get(one.name)} is the most"
        for one in figures
        if most.get(one.name) != one.target or one.missed
    ]


def outdated(written: Mapping[str, float], figures: Sequence[Figure]) -> list[str]:
    """Return the names of figures that a section lacks, has wrong, or has too many."""
    now = {figure.name: figure.value for figure in figures}
    optional = not any(name.endswith(OPTIONAL) for name in now)
    wrong = [name for name, value in now.items() if not _is_near(written.get(name), value)]
    gone = [name for name in written if name not in now]
    return wrong + [name for name in gone if not (optional and name.endswith(OPTIONAL))]


def _is_near(written: float | None, measured: float) -> bool:
    return written is not None and abs(written - measured) <= MAX_DIFFERENCE * measured


def _sections(page: Path) -> dict[str, str]:
    text = page.read_text() if page.exists() else ""
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in text.split("\n## ")[1:]}


def _section(name: str, figures: Sequence[Figure]) -> str:
    rows = ["| figure | value | target |", "|---|---:|---:|"]
    for figure in figures:
        target = "" if figure.target is None else f"≤ {show(figure.target, figure.unit)}"
        rows.append(f"| {figure.name} | {show(figure.value, figure.unit)} | {target} |")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    head = f"`make bench ARGS={name}`, {day}, version {version()}, {_machine()}"
    notes = dict.fromkeys(figure.note for figure in figures if figure.note)
    return "\n".join(
        [f"## {name}", "", head, "", *rows, *(f"\n{fill(note, 110)}" for note in notes), ""]
    )


def _machine() -> str:
    runtimes = f"{platform.python_implementation()} {platform.python_version()}"
    if micropython := find_micropython():
        program = "import sys; print('.'.join(str(n) for n in sys.implementation[1][:3]))"
        runtimes += f", MicroPython {run_micropython(micropython, program, ROOT).strip()}"
    return f"{runtimes}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
