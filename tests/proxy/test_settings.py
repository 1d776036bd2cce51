"""The file of a proxy's settings."""

import subprocess
import sys
from pathlib import Path

from budget_core.ledger.limit import Limit
from budget_cpython.ops.limit_file import limit_file
from budget_cpython.proxy.settings import read_settings
from tests.paths import ROOT

LIMITS = [Limit("nano_usd", 5_000_000_000, "day"), Limit("tokens", None, "day")]


def test_limits_that_were_exported_are_those_of_a_proxy(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(limit_file({"acme": LIMITS, "acme/lab": LIMITS[1:]}))
    settings = read_settings(str(file), {"notices": True}, "acme")
    assert settings.limits() == {"acme": LIMITS, "acme/lab": LIMITS[1:]}
    assert settings.of("acme/lab") == {"notices": True}


def test_a_proxy_without_metrics_or_page_needs_no_msgspec() -> None:
    """The extra of claude-agent has none."""
    program = """
import sys
sys.modules["msgspec"] = None
from budget_cpython.proxy import Proxy
with Proxy({"openai": "http://127.0.0.1:9"}, []).running() as url:
    print(url)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr
