"""The snippets on the adapters' pages run as they stand, each where its SDK is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripted_model import ScriptedEndpoint
from tests.paths import ROOT

INSTRUMENT = "instrument"  # for clients of any SDK: it is on the page of all adapters
PACKAGES = {
    INSTRUMENT: "openai",
    "openai": "openai",
    "anthropic": "anthropic",
    "google-genai": "google.genai",
    "litellm": "litellm",
    "langchain": "langchain",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "claude-agent": "claude_agent_sdk",
    "mcp": "mcp",
    "smolagents": "smolagents",
    "crewai": "crewai",
    "exoclaw": "exoclaw",
}


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


@pytest.mark.parametrize("adapter", PACKAGES)
def test_the_snippets_of_an_adapter_run(
    adapter: str, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    if not is_installed(PACKAGES[adapter]):
        pytest.skip(f"{PACKAGES[adapter]} is not installed")
    name = "adapters" if adapter == INSTRUMENT else f"sdks/{adapter.replace('-', '_')}"
    page = (ROOT / f"docs/{name}.md").read_text()
    variables = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "OPENAI_BASE_URL": endpoint.base_url,
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": endpoint.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": endpoint.base_url.removesuffix("/v1"),
        "GEMINI_API_KEY": "none",
    }
    for code in re.findall("```py\n(.*?)```", page, re.DOTALL):
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "[Stopped" not in done.stdout
