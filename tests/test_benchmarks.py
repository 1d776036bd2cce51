"""The benchmarks run and report; how fast the machine is that runs them decides nothing here."""

import pytest

from benchmarks import __main__ as command
from benchmarks import deadlines, executor, heap, imports, overhead
from benchmarks.figures import Figure, ratio, table

MET = Figure("met", 3, "B", 3)
MISSED = Figure("missed", 0.7, "", 0.6)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


@pytest.fixture(scope="module")
def sizes() -> dict[str, Figure]:
    return by_name(heap.measure())


def test_the_modules_of_the_benchmarked_set_stay_within_their_bytes(
    sizes: dict[str, Figure],
) -> None:
    assert sizes[".mpy: modules of that set"].value < 16 * 1024  # 12 before the clock's rules


def test_what_bounds_a_turn_stays_within_its_bytes_where_it_runs_from_flash(
    sizes: dict[str, Figure],
) -> None:
    in_place = sizes["heap: deadline, turn budget and turn state, from ROMFS"]
    assert not in_place.missed
    assert 0 < in_place.value < sizes["heap: deadline, turn budget and turn state"].value


def test_what_bounds_a_turn_is_a_part_of_the_core(sizes: dict[str, Figure]) -> None:
    part = sizes[".mpy: deadline, turn budget and turn state"].value
    assert 0 < part < sizes[".mpy: every module of the core"].value


def test_one_of_each_takes_less_than_everything_and_than_the_peer(sizes: dict[str, Figure]) -> None:
    ours = sizes["heap: one of each"].value
    everything = sizes["heap: every module of the core imported"].value
    theirs = sizes["heap: exoclaw-turn-budget, with what it imports"].value
    own = sizes["heap: exoclaw-turn-budget, its own part"].value
    assert 0 < ours < everything
    assert ours < theirs / 2
    assert 0 < own < theirs


def test_the_overhead_is_reported_for_each_kind_of_usage() -> None:
    figures = by_name(overhead.measure(quick=True))
    for kind in ("plain usage", "cache details"):
        assert 0 < figures[f"overhead, {kind}: ours"].value < 1_000_000
        assert 0 < figures[f"overhead, {kind}: exoclaw-turn-budget"].value < 1_000_000
        assert figures[f"overhead, {kind}: ratio"].target == 0.6


def test_import_times_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    took = imports._time
    steady = dict(zip(imports._PROGRAMS, (0.01, 0.03, 0.11, 0.06), strict=True))

    def run(program: str) -> float:
        assert took(program) > 0
        return steady[program]

    monkeypatch.setattr(imports, "_time", run)
    figures = imports.measure(quick=True)
    assert [figure.value for figure in figures] == pytest.approx([20, 100, 0.2, 50])
    assert figures[2].target == pytest.approx(1 / 3)


def test_what_deadlines_and_claims_cost_is_reported() -> None:
    figures = by_name(deadlines.measure(quick=True))
    assert figures["Deadline.check_or_raise(): ratio"].target == 2.0
    assert figures["claim_step(): ratio"].target == 1.5
    assert all(0 < figure.value < 1_000_000 for figure in figures.values())


def test_what_the_executor_costs_and_how_late_it_is_are_reported() -> None:
    figures = by_name(executor.measure(quick=True))
    assert figures["executor round trip: ratio"].target == 1.2
    assert figures["exit with 8 hung tools"].target == 1
    late = [figure for name, figure in figures.items() if name.endswith("p99")]
    assert [figure.target for figure in late] == [50, 50, 50]


def test_a_figure_stands_beside_its_target() -> None:
    lines = table([MET, MISSED, Figure("plain", 12345.6, "ns")]).splitlines()
    assert [line.split() for line in lines] == [
        ["figure", "value", "target"],
        ["met", "3", "B", "≤", "3", "B", "met"],
        ["missed", "0.70", "≤", "0.60", "missed"],
        ["plain", "12,346", "ns"],
    ]


def test_a_ratio_to_nothing_misses_any_target() -> None:
    assert ratio("", 1, 2, 0.6).value == 0.5
    assert ratio("", 1, 0, 0.6).missed


@pytest.mark.parametrize(
    ("figure", "options", "code"),
    [(MET, ["--strict"], 0), (MISSED, [], 0), (MISSED, ["--strict"], 1)],
)
def test_a_missed_target_fails_only_the_strict(
    monkeypatch: pytest.MonkeyPatch, figure: Figure, options: list[str], code: int
) -> None:
    monkeypatch.setattr(command, "GROUPS", {"one": lambda quick: [figure]})
    assert command.main(options) == code


def test_a_group_that_cannot_be_measured_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heap, "find_micropython", lambda: None)
    assert command.main(["heap"]) == 0
    assert command.main(["heap", "--strict"]) == 1
    assert "MICROPYTHON" in capsys.readouterr().err


def test_an_unknown_group_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["bogus"])
    assert caught.value.code == 2
    assert "bogus" in capsys.readouterr().err
