"""Make a release: set the version and the date, then commit and tag them.

The version is in pyproject.toml, each package.json and the changelog. The date is in the changelog
and in `BUILT`, before which no board's clock is believed. Pushing the tag publishes the release.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import time
from calendar import timegm
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
PYPROJECT = ROOT / "pyproject.toml"
PACKAGES = [ROOT / "package.json", *sorted(ROOT.glob("budget_core/**/package.json"))]
CLOCK = ROOT / "budget_core/wall_clock.py"
UNRELEASED = "## [Unreleased]\n"
VERSION = re.compile(r"\d+\.\d+\.\d+")


class ReleaseError(Exception):
    """The release cannot be made; nothing was changed."""


def check(version: str) -> None:
    """Raise `ReleaseError` unless this version can be released from here."""
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version such as 1.2.3")
    if status := git("status", "--porcelain"):
        raise ReleaseError(f"the working tree is not clean:\n{status}")
    if git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists")
    text = CHANGELOG.read_text()
    if f"## [{version}]" in text:
        raise ReleaseError(f"CHANGELOG.md already has a section {version}")
    _, _, unreleased = text.partition(UNRELEASED)
    if not unreleased.partition("\n## ")[0].strip():
        raise ReleaseError("CHANGELOG.md has nothing under [Unreleased]")
    if numbers(version) < numbers(current()):
        raise ReleaseError(f"{version} is older than {current()}")


def current() -> str:
    """Return the version that pyproject.toml has."""
    found = re.search(r'^version = "(.+)"$', PYPROJECT.read_text(), re.MULTILINE)
    if found is None:
        raise ReleaseError("pyproject.toml has no version")
    return found[1]


def numbers(version: str) -> list[int]:
    """Return a version's numbers, which compare as versions do."""
    return [int(number) for number in version.split(".")]


def edits(version: str, date: str) -> dict[Path, str]:
    """Return the text that each file of the release gets."""
    built = f"{timegm(time.strptime(date, '%Y-%m-%d')):_}"
    section = f"{UNRELEASED}\n## [{version}] - {date}\n"
    packages = {
        file: replaced(file, r'"version": ".*"', f'"version": {json.dumps(version)}')
        for file in PACKAGES
    }
    return packages | {
        PYPROJECT: replaced(PYPROJECT, r'^version = ".*"$', f'version = "{version}"'),
        CLOCK: replaced(CLOCK, r"^BUILT = [\d_]+  # [\d-]+", f"BUILT = {built}  # {date}"),
        CHANGELOG: replaced(CHANGELOG, re.escape(UNRELEASED), section),
    }


def replaced(file: Path, pattern: str, text: str) -> str:
    """Return a file's text with the one place that matches replaced."""
    changed, count = re.subn(pattern, text, file.read_text(), flags=re.MULTILINE)
    if count != 1:
        raise ReleaseError(f"{file.name} has {count} places like {pattern}, not one")
    return changed


def git(*arguments: str) -> str:
    """Run git in the checkout; return what it prints."""
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return done.stdout.rstrip()


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", help="such as 1.2.3")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, make none")
    options = parser.parse_args()
    version = options.version
    try:
        check(version)
        changes = edits(version, time.strftime("%Y-%m-%d", time.gmtime()))
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for file, text in changes.items():
        if text == file.read_text():
            continue
        if options.dry_run:
            name = str(file.relative_to(ROOT))
            lines = file.read_text().splitlines(), text.splitlines()
            print(*difflib.unified_diff(*lines, name, name, n=0, lineterm=""), sep="\n")
        else:
            file.write_text(text)
    if options.dry_run:
        return 0
    git("commit", "--quiet", "--all", "--message", f"Release {version}")
    git("tag", "--annotate", f"v{version}", "--message", f"microbudget {version}")
    print(
        f"Committed and tagged v{version}. To publish it: git push --atomic origin HEAD v{version}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
