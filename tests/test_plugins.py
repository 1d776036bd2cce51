"""Adapters and engines of other packages: those that CONTRIBUTING shows, installed."""

import asyncio
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import BudgetExceededError
from budget_cpython import Ledger, budgeted, open_ledger
from budget_cpython.adapters.budgeted import adapter
from budget_cpython.context.process_state import PLUGINS
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.opening import engine, open_async_ledger
from tests.paths import ROOT

CLIENT = """
class Client:
    def __init__(self):
        self.asked = []

    def ask(self, text, max_tokens):
        self.asked.append((text, max_tokens))
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        return {"text": "They grow in the sun.", "usage": usage}
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a vendor's package, beside one that budgets it, as if both were installed."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    place = text[text.index("## Adapters and engines of other packages") :]
    points, *modules = re.findall(r"```(?:toml|python)\n(.*?)```", place, re.DOTALL)[:3]
    assert max(len(module.splitlines()) for module in modules) <= 22
    for name, code in zip(("acme_budget", "acme_ledger"), modules, strict=True):
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "acme_llm.py").write_text(CLIENT)
    about = tmp_path / "acme_budget-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-budget\nVersion: 1.0\n")
    groups = tomllib.loads(points)["project"]["entry-points"]
    rows = [
        f"[{group}]\n{name} = {groups[group][name]}" for group in groups for name in groups[group]
    ]
    (about / "entry_points.txt").write_text("\n".join(rows))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    before = dict(PLUGINS)
    yield importlib.import_module("acme_llm")
    PLUGINS.clear()
    PLUGINS.update(before)
    for name in ("acme_llm", "acme_budget", "acme_ledger"):
        sys.modules.pop(name, None)


def test_a_client_of_another_package_is_budgeted_by_its_adapter(acme: Any) -> None:
    plain = acme.Client()
    client = budgeted(plain, "40 tokens")
    assert client.ask("How do tomatoes grow?", max_tokens=20)["text"] == "They grow in the sun."
    assert plain.asked == [("How do tomatoes grow?", 20)]
    assert client.ask("And plums?")["usage"]["total_tokens"] == 12
    assert plain.asked[1][1] <= 28
    with pytest.raises(BudgetExceededError):
        client.ask("And figs?")
    assert len(plain.asked) == 2


def test_a_ledger_of_another_package_is_opened_by_its_scheme(acme: Any) -> None:
    ledger = open_ledger("acme://fleet")
    assert isinstance(ledger, Ledger)
    ledger.set_limits("a", parse_limits("1 call"))
    client = budgeted(acme.Client(), ledger="acme://fleet", account="a")
    client.ask("Hello?")
    assert [row.spent for row in ledger.balance("a")] == [1]
    with closing(open_ledger("acme://fleet", "local", block={"calls": 1})) as leased:
        assert [row.spent for row in leased.balance("a")] == [1]
    found: Any = asyncio.run(open_async_ledger("acme://fleet").balance("a"))
    assert [row.spent for row in found] == [1]


def test_a_program_adds_its_own_by_decorators(acme: Any) -> None:
    @adapter("acme_llm")
    def wrapped(client: Any, accounts: Any) -> Any:
        return client, accounts

    @engine("tin")
    def open_tin(url: str) -> Ledger:
        return Ledger()

    client = acme.Client()
    assert budgeted(client)[0] is client
    assert isinstance(open_ledger("tin:can"), Ledger)
    for again, name in ((adapter, "acme_llm"), (engine, "tin")):
        with pytest.raises(ValueError, match="already"):
            again(name)


def test_what_this_package_has_is_not_replaced() -> None:
    for again, name in ((adapter, "openai"), (engine, "sqlite"), (engine, "redis")):
        with pytest.raises(ValueError, match="already"):
            again(name)


def test_what_no_package_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="budgeted takes a client or model"):
        budgeted(object(), "1 call")
    with pytest.raises(ValueError, match="a ledger's URL is memory:"):
        open_ledger("acme://fleet")


def test_a_plugin_that_cannot_be_loaded_is_named(acme: Any, tmp_path: Path) -> None:
    for module in ("acme_budget", "acme_ledger"):
        (tmp_path / f"{module}.py").write_text("import absent_library")
    said = "the plugin {} of acme-budget, for {!r} in microbudget.{}, cannot be loaded: No module"
    with pytest.raises(ImportError, match=said.format("acme_budget", "acme_llm", "adapters")):
        budgeted(acme.Client(), "1 call")
    with pytest.raises(ImportError, match=said.format(".*", "acme", "ledgers")):
        open_ledger("acme://fleet")
