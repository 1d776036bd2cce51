"""The documentation's snippets run as they stand."""

import os
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripted_model import ScriptedEndpoint
from tests.ledger.dbos.support import SQLITE_TOO_OLD, SQLITE_WILL_DO
from tests.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

LINKED = [*PAGES, *sorted(ROOT.glob("boards/*/*.md")), *sorted(ROOT.glob("examples/*/*.md"))]


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
        env={
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"],
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "code"), snippets("python"))
def test_a_python_snippet_runs(name: str, code: str, tmp_path: Path) -> None:
    if "sqlite:///" in code and not SQLITE_WILL_DO:
        pytest.skip(SQLITE_TOO_OLD)
    pem = (ROOT / "tests/data/localhost.pem").read_text()
    (tmp_path / "ca.der").write_bytes(ssl.PEM_cert_to_DER_cert(pem))
    with ScriptedEndpoint() as endpoint:
        run(code, tmp_path, OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="none")


def test_the_agents_example_counts_its_run_and_remembers_its_day(tmp_path: Path) -> None:
    code = dict(snippets("python"))["agent.md-0"]
    in_half_a_day = (time.gmtime().tm_hour + 12) % 24  # no day ends between the two runs
    day = "DailyBudgetConfig(\n"
    assert code.count(day) == 1
    code = code.replace(day, f"{day}        reset_hour_utc={in_half_a_day},\n")
    outputs = []
    for _ in range(2):
        with ScriptedEndpoint() as endpoint:  # each begins with an empty cache
            outputs.append(run(code, tmp_path, OPENAI_BASE_URL=endpoint.base_url))
    calls = [int(re.findall(r"completed after (\d+) calls", output)[0]) for output in outputs]
    used = [int(re.findall(r"(\d+) tokens, ", output)[0]) for output in outputs]
    cached = [int(re.findall(r"tokens, (\d+) of them", output)[0]) for output in outputs]
    totals = [int(re.findall(r"today: (\d+) tokens", output)[0]) for output in outputs]
    assert used[0] == used[1] > 0
    assert 0 <= used[0] - 0.9 * cached[0] - totals[0] < calls[0]  # a fraction is dropped each time
    assert totals[1] == 2 * totals[0]


def test_the_ledgers_page_says_what_its_wrapper_prints(tmp_path: Path) -> None:
    (code,) = [code for _, code in snippets("python") if "answer.cut_off_by or" in code]
    (said,) = re.findall(r"print\(answer.*  # (.+)", code)
    assert " ".join(run(code, tmp_path).split()) == said


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in LINKED:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in found}


def test_every_link_to_a_heading_leads_to_one() -> None:
    for page in LINKED:
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", page.read_text()):
            linked = page.parent / target if target else page
            assert anchor in headings(linked), f"{page.name}: {target}#{anchor}"


def test_every_make_target_in_the_documentation_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE))
        assert named <= targets, page.name
