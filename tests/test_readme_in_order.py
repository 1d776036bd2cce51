"""The README as a newcomer reads it: each line and snippet in turn, in one fresh environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripted_model import ScriptedEndpoint
from tests.paths import ROOT

PATIENCE = 600  # seconds, also where packages come slowly


@pytest.mark.slow
def test_the_readmes_snippets_run_in_order_in_a_fresh_environment(tmp_path: Path) -> None:
    pytest.importorskip("ensurepip", reason="this Python makes no environments with pip")
    venv, folder = tmp_path / "venv", tmp_path / "folder"
    folder.mkdir()
    run([sys.executable, "-m", "venv", str(venv)], folder)
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    last = max(number for number, (kind, _) in enumerate(blocks) if kind == "python")
    with ScriptedEndpoint() as endpoint:
        variables = {
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": "none",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        for kind, code in blocks[: last + 1]:
            if kind == "sh":
                run(["sh", "-e", "-c", code], ROOT, **variables)  # in a checkout, as it says
            else:
                run([str(venv / "bin/python"), "-W", "error", "-c", code], folder, **variables)


def run(command: list[str], folder: Path, **variables: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
