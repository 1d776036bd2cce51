"""The drawings of the documentation: as the code makes them, and readable by all."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawing import hold_life, rooms, svg, wind_down
from drawings import DRAWINGS, FOLDER

from tests.paths import ROOT
from tests.test_readme import run, snippets

SVG = "{http://www.w3.org/2000/svg}"
CHARACTER = 0.62  # its width in sizes of the font, on average, in the widest font that is named
SIZES = {"small": 13, "big": 16}
LEAST_CONTRAST = 4.5  # of text, by the Web Content Accessibility Guidelines 2.2


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_what_the_script_writes(name: str) -> None:
    written = (FOLDER / name).read_text()
    assert written == DRAWINGS[name]().svg(), "run scripts/drawings.py"


def test_every_drawing_is_shown_on_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    shown = {
        Path(target).name
        for page in pages
        for target in re.findall(r"!\[[^\]]+\]\((\S+\.svg)\)", page.read_text())
    }
    assert {file.name for file in FOLDER.iterdir()} == set(DRAWINGS) <= shown


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_has_a_title_a_description_and_its_words_inside(name: str) -> None:
    root = ElementTree.fromstring((FOLDER / name).read_text())  # noqa: S314 - it is our own
    assert root.get("role") == "img"
    for part in ("title", "desc"):
        found = root.find(SVG + part)
        assert found is not None
        assert found.text
        assert found.get("id") in (root.get("aria-labelledby") or "").split()
    width = float(root.get("width") or 0)
    for text in root.iter(f"{SVG}text"):
        sizes = [SIZES[kind] for kind in text.get("class", "").split() if kind in SIZES]
        wide = len(text.text or "") * CHARACTER * (sizes or [14])[0]
        left = float(text.get("x") or 0)
        left -= {"middle": wide / 2, "end": wide}.get(text.get("text-anchor", ""), 0)
        assert 0 <= left <= width - wide, text.text


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("scheme", [svg.LIGHT, svg.DARK])
def test_text_stands_out_in_both_schemes(scheme: dict[str, str]) -> None:
    assert svg.LIGHT.keys() == svg.DARK.keys()
    for ink in ("ink", "soft"):
        for ground in ("back", "box"):
            low, high = sorted((luminance(scheme[ink]), luminance(scheme[ground])))
            assert (high + 0.05) / (low + 0.05) >= LEAST_CONTRAST, (ink, ground)


def test_the_page_on_holds_says_what_a_ledger_does() -> None:
    page = (ROOT / "docs/hold.md").read_text()
    [columns] = re.findall(r"^\| a hold that is \|(.+)\|$", page, re.MULTILINE)
    operations = [name.strip().replace("`", "") for name in columns.split("|")]
    said = {
        (state, operation): cell.strip(" `")
        for state in hold_life.STATES
        for row in re.findall(rf"^\| {state} \|(.+)\|$", page, re.MULTILINE)
        for operation, cell in zip(operations, row.split("|"), strict=True)
    }
    done = {
        (state, operation): outcome.error or outcome.state
        for state, operation, outcome in hold_life.outcomes()
    }
    assert said == done


def test_the_page_on_holds_prints_what_it_says(tmp_path: Path) -> None:
    codes = [code for name, code in snippets("python") if name.startswith("hold.md")]
    assert codes
    for code in codes:
        said = re.findall(r"(?:print|show)\(.*\)  # (.+)", code)
        assert run(code, tmp_path).splitlines() == said


def test_a_hold_counts_in_one_way_in_each_state() -> None:
    counted = {state: hold_life.counts(state) for state in hold_life.STATES}
    assert all(one != other for one, other in combinations(counted.values(), 2)), counted


def test_the_run_that_is_drawn_is_warned_loses_tools_and_ends_within_its_limit() -> None:
    calls = wind_down.calls_of_run()
    assert [call.tools for call in calls] == sorted((call.tools for call in calls), reverse=True)
    assert {"normal", "narrowed", "last_call"} == {call.stage for call in calls}
    assert calls[-1].stage == "last_call"
    assert calls[-1].tools == 0
    assert any(call.told for call in calls if call.stage == "normal")
    assert calls[-1].before + calls[-1].used <= (wind_down.BUDGET.max_tokens or 0)


def test_an_arrow_between_rooms_points_down() -> None:
    floors = rooms.floors()
    arrows = rooms.arrows()
    assert all(floors[room] > floors[other] for room, other in arrows)
    assert ("budget_cpython/ledger", "budget_core/ledger") in arrows
    assert not [room for room, other in arrows if room < "budget_cpython" <= other]


def test_a_step_of_a_hold_that_has_no_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(hold_life._WAYS, ("held", "expired"))
    with pytest.raises(ValueError, match="its ttl ends"):
        hold_life.drawing()


def test_a_room_that_has_no_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(rooms._COLUMNS, "budget_core/chat")
    with pytest.raises(ValueError, match="budget_core/chat"):
        rooms.drawing()
