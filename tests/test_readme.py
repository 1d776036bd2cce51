"""The documentation's snippets run as they stand."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from budget_cpython.endpoint import ScriptedEndpoint

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def snippets(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", code)
        for page in PAGES
        for number, code in enumerate(
            re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
        )
    ]


def run(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "code"), snippets("python"))
def test_a_python_snippet_runs(name: str, code: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/data/localhost.pem", tmp_path / "ca.pem")
    with ScriptedEndpoint() as endpoint:
        run(code, tmp_path, OPENAI_BASE_URL=endpoint.base_url)


def test_the_readmes_example_counts_its_turn_and_remembers_its_day(tmp_path: Path) -> None:
    (_, code), *_ = snippets("python")
    with ScriptedEndpoint() as endpoint:
        outputs = [run(code, tmp_path, OPENAI_BASE_URL=endpoint.base_url) for _ in range(2)]
    totals = [int(re.findall(r"today: (\d+) tokens", output)[0]) for output in outputs]
    turns = [int(re.findall(r"and (\d+) tokens", output)[0]) for output in outputs]
    assert "completed after" in outputs[0]
    assert totals == [turns[0], turns[0] + turns[1]]


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_make_target_in_the_documentation_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE))
        assert named <= targets, page.name
