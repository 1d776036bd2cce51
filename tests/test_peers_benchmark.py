"""The benchmark beside peers measures ours without them, and says what it left out."""

from pathlib import Path

import pytest

from benchmarks import peers
from tests.ledger.many_calls import WAYS


@pytest.mark.slow
def test_ours_keeps_within_a_dollar_where_no_budget_does_not_and_missing_peers_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {figure.name: figure for figure in peers.measure(quick=True, folder=tmp_path)}
    for way in WAYS:
        assert figures[f"100 calls on $1, {way}: no budget let through"].value == 3.0
        for name in ("microbudget in memory", "microbudget in SQLite"):
            spent = figures[f"100 calls on $1, {way}: {name} let through"]
            assert not spent.missed
            assert spent.target == 1.0
            assert spent.value > 0.2
            recorded = figures[f"100 calls on $1, {way}: {name} recorded"]
            assert recorded.value == pytest.approx(spent.value)
    ours = [name for name in figures if ": no budget" in name or ": microbudget" in name]
    assert len(ours) == 10
    assert "agentguard47 with a store, limits" in capsys.readouterr().err
