"""The release command, in a checkout of its own."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from budget_core.wall_clock import BUILT
from tests.paths import ROOT

LEFT_OUT = (".git", ".local", ".hypothesis", ".*cache", "__pycache__", "tests*", "dist")
NEXT = "999.0.1"
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.com",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.com",
}


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **IDENTITY, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def git(folder: Path, *arguments: str) -> str:
    done = run(folder, "git", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def release(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(folder, sys.executable, "scripts/release.py", *arguments)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of an old release, with one change that was not released yet."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    changelog = folder / "CHANGELOG.md"
    entry = "## [Unreleased]\n\n### Added\n\n- A thing of the future.\n"
    changelog.write_text(changelog.read_text().replace("## [Unreleased]\n", entry))
    clock = folder / "budget_core/wall_clock.py"
    old = re.sub(
        r"^BUILT = .* # [0-9-]+", "BUILT = 86_400  # 1970-01-02", clock.read_text(), flags=re.M
    )
    clock.write_text(old)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def test_a_release_sets_the_version_and_the_date_everywhere_and_tags_them(checkout: Path) -> None:
    done = release(checkout, NEXT)
    assert done.returncode == 0, done.stderr
    day = datetime.now(UTC).date().isoformat()
    project = tomllib.loads((checkout / "pyproject.toml").read_text())
    assert project["project"]["version"] == NEXT
    for package in checkout.rglob("package.json"):
        assert f'"version": "{NEXT}"' in package.read_text()
    run(checkout, sys.executable, "-m", "budget_cpython.board.mip")
    assert git(checkout, "status", "--porcelain") == ""  # it writes what the release wrote
    _, _, rest = (checkout / "CHANGELOG.md").read_text().partition("## [Unreleased]\n")
    assert rest.startswith(f"\n## [{NEXT}] - {day}\n\n### Added\n\n- A thing of the future.\n")
    program = "from budget_core.wall_clock import BUILT; print(BUILT)"
    built = int(run(checkout, sys.executable, "-c", program).stdout)
    assert datetime.fromtimestamp(built, UTC).isoformat() == f"{day}T00:00:00+00:00"
    assert git(checkout, "log", "-1", "--format=%s") == f"Release {NEXT}"
    assert git(checkout, "describe") == f"v{NEXT}"


def test_a_dry_run_shows_the_changes_and_makes_none(checkout: Path) -> None:
    done = release(checkout, NEXT, "--dry-run")
    assert done.returncode == 0, done.stderr
    for line in (
        f'+version = "{NEXT}"',
        f'+  "version": "{NEXT}",',
        f"+## [{NEXT}] - ",
        "+BUILT = ",
    ):
        assert line in done.stdout
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "tag") == ""


@pytest.mark.parametrize(
    ("version", "why"),
    [("next", "not a version"), ("1.2", "not a version"), ("0.0.9", "is older than")],
)
def test_an_unusable_version_is_refused(checkout: Path, version: str, why: str) -> None:
    refused(checkout, version, why)


def test_a_working_tree_with_changes_is_refused(checkout: Path) -> None:
    (checkout / "new.txt").write_text("")
    refused(checkout, NEXT, "new.txt")


def test_a_version_that_was_released_is_refused(checkout: Path) -> None:
    git(checkout, "tag", f"v{NEXT}")
    refused(checkout, NEXT, f"the tag v{NEXT} exists")


def test_a_release_without_changes_is_refused(checkout: Path) -> None:
    assert release(checkout, NEXT).returncode == 0
    refused(checkout, "999.0.2", "nothing under [Unreleased]")


def refused(checkout: Path, version: str, why: str) -> None:
    before = git(checkout, "log", "-1", "--format=%H")
    done = release(checkout, version)
    assert done.returncode == 1
    assert why in done.stderr
    assert git(checkout, "log", "-1", "--format=%H") == before
    assert git(checkout, "diff", "--stat") == ""


def test_the_newest_section_of_the_changelog_is_this_version_and_its_date() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    day = datetime.fromtimestamp(BUILT, UTC).date().isoformat()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(\d.*)\] - (.*)$", changelog, re.MULTILINE)
    assert released[:1] in ([], [(version, day)])  # none before the first release


def test_the_workflow_runs_every_python_that_the_classifiers_name_and_newer_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text]
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    (pythons,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"[\d.]+", pythons)[: len(named)] == named
    assert f">={named[0]}" == project["requires-python"]


def test_every_board_has_a_group_of_the_types_of_its_firmware() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    boards = {path.parent.name for path in ROOT.glob("boards/*/main.py")}
    assert {name.removeprefix("stubs-") for name in groups if name.startswith("stubs-")} == boards
