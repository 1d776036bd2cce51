"""A refused call is one attempt of each SDK's default client: nothing provokes a retry."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy import Proxy
from scripted_model import ScriptedEndpoint
from tests.paths import ROOT
from tests.proxy.support import Counted
from tests.serve.support import PATIENCE

HERE = ROOT / "tests/proxy"
OLDEST_NODE = 18


@pytest.fixture
def refusing() -> Iterator[tuple[str, Counted, ScriptedEndpoint]]:
    """Serve a proxy that refuses every call."""
    with ScriptedEndpoint() as endpoint:
        root = endpoint.base_url.removesuffix("/v1")
        proxy = Proxy({"it": root}, [BudgetAccount(parse_limits("0 calls/day"))])
        counted = Counted(proxy.app)
        with counted.running() as url:
            yield url, counted, endpoint


def run(*command: object, **environment: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(said: str, refused: tuple[str, Counted, ScriptedEndpoint], status: int = 402) -> None:
    """Assert that a client was refused, and tried once."""
    row = json.loads(said)
    assert row["status"] == status
    assert "0 of 0 calls per day left" in row["text"]
    _, counted, endpoint = refused
    assert len(counted.requests) == 1
    assert len(endpoint.requests) == 0


def test_openai_in_python(refusing: tuple[str, Counted, ScriptedEndpoint]) -> None:
    check(run(sys.executable, HERE / "calls.py", "openai", refusing[0], 1), refusing)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["anthropic", "langchain", "litellm", "google-genai"])
def test_other_sdks_in_python(refusing: tuple[str, Counted, ScriptedEndpoint], name: str) -> None:
    python = run(ROOT / "scripts/adapters.sh", sys.executable, f"{name}-newest").strip()
    said = run(python, HERE / "calls.py", name, refusing[0], 1)
    check(said.splitlines()[-1], refusing)


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_sdks_in_javascript(
    refusing: tuple[str, Counted, ScriptedEndpoint], vendor: str, node_path: str
) -> None:
    program = HERE / "node/calls.cjs"
    check(run("node", program, vendor, refusing[0], 1, NODE_PATH=node_path), refusing)


def test_curl_that_may_retry(
    refusing: tuple[str, Counted, ScriptedEndpoint], tmp_path: Path
) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl")
    url, counted, endpoint = refusing
    body = '{"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}'
    retries = ["--retry", "5", "--retry-delay", "0", "--fail-with-body"]
    command = [curl, "-s", *retries, "--json", body, f"{url}/v1/chat/completions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 22
    assert json.loads(done.stdout)["error"]["budget"]["left"] == 0
    assert (len(counted.requests), len(endpoint.requests)) == (1, 0)
