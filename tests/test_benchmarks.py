"""The benchmarks run and report; how fast the machine is that runs them decides nothing here."""

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import (
    answer_caps,
    code,
    deadlines,
    executor,
    heap,
    imports,
    overhead,
    page,
    start,
)
from benchmarks.figures import Figure, ratio, table

MET = Figure("met", 3, "B", 3)
MISSED = Figure("missed", 0.7, "", 0.6)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


@pytest.fixture(scope="module")
def sizes() -> dict[str, Figure]:
    return by_name(heap.measure())


def test_a_turns_limits_stay_within_their_bytes_where_they_run_from_flash(
    sizes: dict[str, Figure],
) -> None:
    in_place = sizes["heap: deadline, turn budget and turn state, ROMFS, 64-bit"]
    assert not in_place.missed
    assert (
        0
        < in_place.value
        < sizes["heap: deadline, turn budget and turn state, folder, 64-bit"].value
    )


def test_a_set_of_names_loads_a_part_of_the_core(sizes: dict[str, Figure]) -> None:
    everything = sizes[".mpy: every module"].value
    for name in (heap.TRACKERS, heap.STORED, heap.DAILY, heap.TURN):
        assert 0 < sizes[f".mpy: {name}"].value < everything / 2


def test_the_trackers_take_less_than_everything_and_than_the_peer(sizes: dict[str, Figure]) -> None:
    ours = sizes["heap: trackers, folder, 64-bit"].value
    everything = sizes["heap: every module, folder, 64-bit"].value
    theirs = sizes["heap: exoclaw-turn-budget, with what it imports, folder, 64-bit"].value
    own = sizes["heap: exoclaw-turn-budget, its own part, folder, 64-bit"].value
    assert 0 < ours < everything
    assert ours < theirs / 2
    assert 0 < own < theirs


def test_the_page_has_the_heap_as_it_is(sizes: dict[str, Figure]) -> None:
    written = page.read(page.PAGE)["heap"]
    assert page.outdated(written, list(sizes.values())) == [], "run: make bench ARGS=heap"


@pytest.fixture(scope="module")
def measured_code() -> list[Figure]:
    return code.measure()


def test_the_page_has_the_code_as_it_is(measured_code: list[Figure]) -> None:
    written = page.read(page.PAGE)["code"]
    assert page.outdated(written, measured_code) == [], "run: make bench ARGS=code"


def test_the_way_of_a_call_and_both_packages_stay_within_their_bounds(
    measured_code: list[Figure],
) -> None:
    most = page.bounds(page.PAGE)["code"]
    assert {
        "lines of code: both",
        "functions entered: an openai call on SQLite",
        "files entered: an openai call on SQLite",
    } <= most.keys()
    assert page.beyond(most, measured_code) == []


def test_a_run_of_a_short_command_takes_little_more_than_python() -> None:
    most = page.bounds(page.PAGE)["start"]
    figures = [figure for figure in start.measure(quick=True) if figure.name == start.RUN]
    assert page.beyond(most, figures) == []


def test_a_figure_is_beyond_its_bound_or_has_another_one(tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    page.write({"one": [MET, Figure("free", 12_345), MISSED]}, ("one",), file)
    most = page.bounds(file)["one"]
    assert most == {"met": 3, "missed": 0.6}
    assert page.beyond(most, [MET, Figure("free", 99_999)]) == []
    assert page.beyond(most, [MISSED]) == ["missed: 0.70, where 0.6 is the most"]
    assert page.beyond({"met": 4}, [MET]) == ["met: 3 B, where 4 is the most"]


def test_the_page_on_money_has_the_outcome_of_limits_for_long_answers() -> None:
    written = answer_caps.PAGE.read_text().splitlines()
    found = answer_caps.rows(answer_caps.SCENARIOS[:2])
    assert len(found) == 8
    assert set(found) <= set(written), "run: make bench ARGS=caps"


@pytest.mark.slow
def test_the_page_on_money_has_what_the_limits_of_answers_come_to() -> None:
    text = answer_caps.PAGE.read_text()
    assert answer_caps.with_table(text) == text, "run: make bench ARGS=caps"
    assert all(not figure.missed for figure in answer_caps.measure(quick=True))


def test_a_figure_is_outdated_when_it_is_off_by_more_than_15_percent() -> None:
    measured = [Figure("a", 100), Figure("b", 100), Figure("c", 100), Figure("d", 100)]
    written = {"a": 115.0, "b": 85.0, "c": 116.0, "d": 84.0}
    assert page.outdated(written, measured) == ["c", "d"]


def test_a_figure_is_outdated_when_it_is_missing_or_no_longer_measured() -> None:
    assert page.outdated({}, [Figure("new", 1)]) == ["new"]
    assert page.outdated({"old": 1.0}, []) == ["old"]


def test_figures_of_the_32_bit_port_are_compared_where_it_runs() -> None:
    written = {"heap, 64-bit": 2.0, "heap, 32-bit": 1.0}
    assert page.outdated(written, [Figure("heap, 64-bit", 2)]) == []
    measured = [Figure("heap, 64-bit", 2), Figure("heap, 32-bit", 2)]
    assert page.outdated(written, measured) == ["heap, 32-bit"]


def test_the_page_keeps_what_was_not_measured_and_drops_groups_that_are_gone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "figures.md"
    page.write({"one": [Figure("a", 12_345, "B", 20_000)], "two": [MET]}, ("one", "two"), file)
    assert "| a | 12,345 B | ≤ 20,000 B |" in file.read_text()
    page.write({"one": [Figure("a", 0.5)]}, ("three", "one"), file)
    assert page.read(file) == {"one": {"a": 0.5}}
    page.write({"three": [MISSED]}, ("three", "one"), file)
    assert page.read(file) == {"three": {"missed": 0.7}, "one": {"a": 0.5}}
    assert file.read_text().index("## three") < file.read_text().index("## one")


def test_the_page_gives_each_reason_once_below_its_table(tmp_path: Path) -> None:
    file = tmp_path / "figures.md"
    figures = [Figure("a", 1, note="It is new."), Figure("b", 2, note="It is new."), MET]
    page.write({"one": figures}, ("one",), file)
    text = file.read_text()
    assert text.count("It is new.") == 1
    assert text.index("| met |") < text.index("\n\nIt is new.\n")


def test_the_page_has_groups_that_exist_alone() -> None:
    assert set(page.REPEATABLE) <= set(page.read(page.PAGE)) <= set(command.GROUPS)


def test_the_overhead_is_reported_for_each_form_of_call_and_usage() -> None:
    figures = by_name(overhead.measure(quick=True))
    for form in ("messages alone", "tool and model", "all arguments"):
        for usage, target in (("plain usage", 1.0), ("cache details", None)):
            name = f"overhead, {form}, {usage}"
            assert 0 < figures[f"{name}: ours"].value < 1_000_000
            assert 0 < figures[f"{name}: exoclaw-turn-budget"].value < 1_000_000
            assert figures[f"{name}: ratio"].target == target


def test_blank_lines_comments_and_docstrings_are_no_lines_of_code() -> None:
    source = '''"""A module.

With more to say.
"""

import sys  # counted

# not counted
TEXT = """
counted, as the line before and after

"""


def double(x):
    """Return
    twice."""
    return (
        2 * x
    )
'''
    assert code.lines_of_code(source) == 1 + 4 + 1 + 3


def test_import_times_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    took = imports._time
    steady = dict(zip(imports._PROGRAMS, (0.01, 0.03, 0.11, 0.06), strict=True))

    def run(program: str) -> float:
        assert took(program) > 0
        return steady[program]

    monkeypatch.setattr(imports, "_time", run)
    figures = imports.measure(quick=True)
    assert [figure.value for figure in figures] == pytest.approx([20, 100, 0.2, 50])
    assert figures[2].target == 0.33


def test_what_deadlines_and_claims_cost_is_reported() -> None:
    figures = by_name(deadlines.measure(quick=True))
    assert figures["Deadline.check_or_raise(): ratio"].target == 2.0
    assert figures["claim_step(): ratio"].target == 1.5
    assert all(0 < figure.value < 1_000_000 for figure in figures.values())


def test_what_the_executor_costs_and_how_late_it_is_are_reported() -> None:
    figures = by_name(executor.measure(quick=True))
    assert figures["executor round trip: ratio"].value > 0
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


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page that the command writes, in place of the real one."""
    file = tmp_path / "figures.md"
    monkeypatch.setattr(page, "PAGE", file)
    return file


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("figure", "options", "status"),
    [(MET, ["--strict"], 0), (MISSED, [], 0), (MISSED, ["--strict"], 1)],
)
def test_a_missed_target_fails_only_the_strict(
    monkeypatch: pytest.MonkeyPatch, figure: Figure, options: list[str], status: int
) -> None:
    monkeypatch.setattr(command, "GROUPS", {"one": lambda quick: [figure]})
    assert command.main(options) == status


def test_a_full_measurement_is_written_and_a_quick_one_is_not(
    monkeypatch: pytest.MonkeyPatch, written: Path
) -> None:
    monkeypatch.setattr(command, "GROUPS", {"one": lambda quick: [MET]})
    command.main(["--quick"])
    assert not written.exists()
    command.main([])
    assert page.read(written) == {"one": {"met": 3}}


@pytest.mark.usefixtures("written")
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
