"""The file of a proxy's settings."""

from pathlib import Path

from budget_core.ledger.limit import Limit
from budget_cpython.ops.limit_file import limit_file
from budget_cpython.proxy.settings import read_settings

LIMITS = [Limit("nano_usd", 5_000_000_000, "day"), Limit("tokens", None, "day")]


def test_limits_that_were_exported_are_those_of_a_proxy(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(limit_file({"acme": LIMITS, "acme/lab": LIMITS[1:]}))
    settings = read_settings(str(file), {"notices": True}, "acme")
    assert settings.limits() == {"acme": LIMITS, "acme/lab": LIMITS[1:]}
    assert settings.of("acme/lab") == {"notices": True}
