"""What the page shows."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.web.keys import KeyFile
from tests.page.support import (
    HOSTILE,
    NOON,
    Document,
    Node,
    Visitor,
    make_ledger,
    note_a_day,
    visit,
)
from tests_micro.support import FakeClock

PAGES = ("", "account/acme", "account/acme/lab/ann", "account/acme/unknown", "?q=nothing")


@pytest.fixture(scope="module")
def visitor() -> Visitor:
    ledger = make_ledger()
    note_a_day(ledger)
    return visit(ledger)


def test_browsers_find_the_page_at_the_root(visitor: Visitor) -> None:
    for place in ("/", "/microbudget"):
        assert visitor.get(place).headers["location"] == "/microbudget/"


@pytest.mark.parametrize("place", PAGES)
def test_each_view_has_landmarks_headings_in_order_and_labels(visitor: Visitor, place: str) -> None:
    check_structure(visitor.see(place))


def check_structure(page: Node) -> None:
    assert page.all("html", lang="en")
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("title")) == 1
    levels = [int(one.name[1]) for one in page.walk() if re.fullmatch("h[1-6]", one.name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [one.attributes["id"] for one in page.walk() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    labelled = {one.attributes["for"] for one in page.all("label")}
    fields = [one for one in page.all("input") if one.attributes.get("type") != "hidden"]
    assert {one.attributes["id"] for one in fields} == labelled
    for section in page.all("section"):
        assert section.attributes.get("aria-label") or section.attributes["aria-labelledby"] in ids
    for table in page.all("table"):
        assert table.all("th", scope="col")
    for svg in page.all("svg"):
        hidden = svg.attributes.get("aria-hidden") == "true"
        assert hidden or svg.attributes["aria-label"]


@pytest.mark.parametrize("place", PAGES)
def test_no_view_has_script_or_style_of_its_own_or_loads_from_elsewhere(
    visitor: Visitor, place: str
) -> None:
    check_closed(visitor.see(place))


def check_closed(page: Node) -> None:
    for one in page.walk():
        assert one.name not in ("style", "iframe", "object", "embed", "base", "img")
        assert "style" not in one.attributes
        assert not [name for name in one.attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            place = one.attributes.get(name, "/microbudget/")
            assert place.startswith(("/microbudget/", "#"))
    scripts = page.all("script")
    assert all(one.attributes["src"] and not one.text for one in scripts)


def test_every_answer_forbids_what_the_page_does_not_need(visitor: Visitor) -> None:
    places = ("", "static/page.css", "static/other", "account/..%2f", "?page=x")
    answers = [visitor.get(place) for place in places]
    assert [one.status_code for one in answers] == [200, 200, 404, 404, 200]
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert one.headers["x-content-type-options"] == "nosniff"


def test_the_accounts_are_a_tree_with_their_limits(visitor: Visitor) -> None:
    (table,) = visitor.see().all("table", class_="accounts")
    rows = [row.text for row in table.all("tr")[1:]]
    assert rows[0].startswith("acme 20000 calls/day")
    assert "$60/day $60/day 13 % spent, 0 % held $8.00 $0.50 $51.50" in rows[1]
    names = [one.text for one in table.all("a")]
    assert names == ["acme", "lab", "ann", "ops", "other"]
    ops = next(row for row in rows if row.startswith("ops"))
    assert ops.startswith("ops all calls/day all calls/day no limit")


def test_who_is_over_is_said_first(visitor: Visitor) -> None:
    page = visitor.see()
    over = page.part("over").text
    assert "acme/lab/ann $1.25 of $1/day resets 2026-03-02 00:00 UTC 5 refused" in over
    assert "acme/ops" not in over
    totals = page.part("totals").text
    assert "Accounts 5 Over a limit 1" in totals
    assert "Refused, last hour 5 Open holds 1" in totals
    assert "alert to ops dead, attempt 7" in totals


def test_an_account_that_is_refused_with_a_little_left_is_said_too() -> None:
    ledger = make_ledger()
    limit = {"account": "acme", "axis": "nano_usd", "window": "day", "cap": 60 * 10**9}
    ledger.note([LedgerEvent("refused", "acme/ops", {"limit": limit, "times": 31})])
    over = visit(ledger).see().part("over").all("li")
    assert [one.all("a")[0].text for one in over] == ["acme/lab/ann", "acme/ops"]
    assert over[1].text == "acme/ops by $60/day of acme 31 refused"


def test_limits_that_end_before_their_reset_have_a_burn_down(visitor: Visitor) -> None:
    cards = visitor.see().part("nearest").all("li")
    assert cards[0].text.startswith("acme/lab $10/day $2.00 left empty 2026-03-01 15:00 UTC")
    (chart,) = cards[0].all("svg")
    assert chart.attributes["aria-label"] == (
        "$2.00 left of $10/day; at this rate empty 2026-03-01 15:00 UTC, before the reset "
        "at 2026-03-02 00:00 UTC"
    )
    (line,) = chart.all("polyline", class_="line")
    points = [tuple(map(float, one.split(","))) for one in line.attributes["points"].split()]
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (150.0, 57.6)  # at noon, a fifth is left
    assert points[1] == (125.0, 0.0)  # nothing was spent before ten
    (ahead,) = chart.all("polyline", class_="ahead")
    assert ahead.attributes["points"] == "150.0,57.6 187.5,72.0"


def test_spend_is_shown_by_model_account_and_tool(visitor: Visitor) -> None:
    models, accounts, tools = visitor.see().part("spend").all("table")
    assert [row.text for row in models.all("tr")[1:]] == [
        "small $6.75 70,000 40",
        "gpt-5 $1.25 9,000 12",
    ]
    assert accounts.all("tr")[1].text == "acme/lab $6.75 70,000 40"
    assert tools.all("tr")[1].text == "search \N{EN DASH} 4"
    assert "yesterday" not in models.text
    assert "yesterday" in visitor.see("?period=7d").part("spend").text


def test_refusals_say_which_limit_and_why(visitor: Visitor) -> None:
    rows = [row.text for row in visitor.see().part("refusals").all("tr")[1:]]
    assert rows == [
        "2026-03-01 12:00 UTC acme/lab/ann $10/day of acme/lab $8.00 spent; asked for more 4",
        "2026-03-01 12:00 UTC acme/lab/ann $1/day $1.25 spent; asked for $0.03 1",
    ]


def test_holds_and_changes_are_shown(visitor: Visitor) -> None:
    page = visitor.see()
    assert "0 s acme/ops $0.50, 1 call 2026-03-01 12:05 UTC h1" in page.part("holds").text
    assert "acme/ops limits: $3/day → $4/day key eve" in page.part("changes").text


def test_an_account_has_a_view_of_its_own_with_those_above(visitor: Visitor) -> None:
    page = visitor.see("account/acme/lab/ann")
    assert "over" in page.all("h1")[0].text
    head = page.part("head").text
    assert "300 calls/hour 288 left" in head
    assert "acme/lab $8.00 of $10/day" in head
    assert "gpt-5" in page.part("spend").text
    assert "small" not in page.part("spend").text
    below = visitor.see("account/acme/lab").part("accounts")
    assert [one.text for one in below.all("a")] == ["ann"]


def test_hostile_names_are_text(visitor: Visitor) -> None:
    ledger = make_ledger()
    note_a_day(ledger, model=HOSTILE, tool=f'"><img src=x onerror={HOSTILE}\u202e')
    ledger.reserve("acme/ops", {"calls": 1}, key="<b>&'\"")
    bad = {"limit": {"account": HOSTILE, "axis": HOSTILE, "window": "rolling x"}, "would": HOSTILE}
    changed = {"by": HOSTILE, "before": HOSTILE, "after": [[HOSTILE, -1, []], 7]}
    events = [
        LedgerEvent(kind, "acme", {**changed, **bad, "key": HOSTILE, "amounts": 5})
        for kind in (
            "refused",
            "observed",
            "limits",
            "keys",
            "threshold",
            "forecast",
            "outage",
            "grant",
            "released",
            HOSTILE,
        )
    ]
    ledger.note([*events, LedgerEvent("limits", "acme", {"before": 5, "after": {"a": 1}})])
    guest = visit(ledger)
    for place in (
        "",
        "account/acme",
        f"?q={HOSTILE}",
        "?q=%22%3E%3Cscript%3E",
        "?order=<b>&page=<b>",
        f"?page={'9' * 5000}",
    ):
        page = guest.see(place)
        check_structure(page)
        check_closed(page)
    assert HOSTILE in guest.see().part("spend").text
    assert "\u202e" not in guest.get().text


def test_ten_thousand_accounts_are_shown_in_parts_and_found_by_search() -> None:
    ledger = Ledger(FakeClock(NOON))
    for number in range(10_000):
        ledger.set_limits(f"org/team-{number % 40}/agent-{number}", [Limit("calls", 10, "day")])
    for number, calls in ((7777, 11), (4242, 9)):
        ledger.charge(f"org/team-{number % 40}/agent-{number}", {"calls": calls}, f"c{number}")
    guest = visit(ledger)
    answer = guest.get()
    assert len(answer.content) < 150_000
    page = Document(answer.text).root
    links = [one.text for one in page.part("accounts").all("table")[0].all("a")]
    assert len(links) == 100
    assert links[:2] == ["org/team-17/agent-7777", "org/team-2/agent-4242"]
    assert "Page 1 of 100" in page.part("accounts").text
    second = [one.text for one in guest.see("?page=2").part("accounts").all("table")[0].all("a")]
    assert not set(second) & set(links)
    found = guest.see("?q=agent-9876").part("accounts")
    assert [one.text for one in found.all("table")[0].all("a")] == ["org/team-36/agent-9876"]
    assert len(guest.get("account/org/team-36").content) < 150_000


def test_a_reader_sees_no_spend_of_others(tmp_path: Path) -> None:
    ledger = make_ledger()
    note_a_day(ledger)
    keys = KeyFile(tmp_path / "keys.json")
    guest = visit(ledger, keys).sign_in(keys.add("ann", "acme/lab/ann", ["read"]))
    page = guest.see()
    assert [one.text for one in page.part("accounts").all("table")[0].all("a")] == ["acme/lab/ann"]
    refusals = page.part("refusals").text
    assert "$1/day $1.25 spent; asked for $0.03" in refusals
    assert "dollars/day, above asked for more" in refusals
    assert "8.00" not in page.text
    assert "eve" not in page.text
    assert "small" not in page.text
    own = guest.see("account/acme/lab/ann")
    assert "acme/lab $2.00 left" in own.text
    assert "8.00" not in own.text
    for path in ("acme", "acme/lab", "other", "acme/lab/anna"):
        assert guest.get(f"account/{path}").status_code == 403
