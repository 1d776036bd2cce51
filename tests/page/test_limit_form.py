"""A change of limits on the page."""

from typing import Any

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.page.limit_form import line_of
from budget_cpython.web.keys import KeyFile
from tests.page.support import Document, Node, Visitor, make_ledger, visit
from tests.page.test_views import check_closed, check_structure

ANN = "acme/lab/ann"


@pytest.fixture
def ledger() -> Ledger:
    return make_ledger()


@pytest.fixture
def guest(ledger: Ledger) -> Visitor:
    return visit(ledger)


def propose(guest: Visitor, path: str, line: str, status: int = 200, **more: str) -> Node:
    """Ask what a line would change."""
    token = guest.token(f"account/{path}")
    answer = guest.post(f"limits/{path}", token=token, limits=line, **more)
    assert answer.status_code == status, answer.text
    page = Document(answer.text).root
    check_structure(page)
    check_closed(page)
    return page


def stamp(page: Node) -> str:
    return page.all("input", name="stamp")[0].attributes["value"]


def test_the_form_has_the_limits_as_they_are_written(guest: Visitor, ledger: Ledger) -> None:
    (field,) = guest.see(f"account/{ANN}").all("input", id="limits")
    line = field.attributes["value"]
    assert set(parse_limits(line)) == set(ledger.limits(ANN))


def test_what_would_change_is_shown_and_nothing_is_changed(guest: Visitor, ledger: Ledger) -> None:
    before = ledger.limits(ANN)
    page = propose(guest, ANN, "$1.20/day + 10 calls/day")
    rows = [row.text for row in page.all("table", class_="diff")[0].all("tr")[1:]]
    assert rows == [
        "+ added 10 calls/day 0",
        "\N{MINUS SIGN} removed 300 calls/hour 12 its count ends",
        "\N{PLUS-MINUS SIGN} changed $1/day $1.20/day $1.25 over at once",
    ]
    assert ledger.limits(ANN) == before
    assert [one.details["before"] for one in ledger.events(ANN, ["limits"])] == [[]]


def test_a_change_is_applied_and_noted_with_who_made_it(tmp_path: Any, ledger: Ledger) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    guest = visit(ledger, keys).sign_in(keys.add("eve", "acme", ["read", "limits"]))
    line = "$5/day + 2M tokens/month + $2/10 min"
    page = propose(guest, ANN, line)
    answer = guest.post(
        f"limits/{ANN}", token=guest.token(), limits=line, stamp=stamp(page), apply="yes"
    )
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        f"/microbudget/account/{ANN}",
    )
    assert set(ledger.limits(ANN)) == set(parse_limits(line))
    event = ledger.events(kinds=["limits"])[-1]
    assert (event.account, event.details["by"]) == (ANN, "key eve")
    assert ["nano_usd", 10**9, "day"] in event.details["before"]
    assert ["tokens", 2_000_000, "month"] in event.details["after"]
    assert "$5/day" in guest.see(f"account/{ANN}").part("head").text


def test_what_was_changed_meanwhile_is_shown_again(guest: Visitor, ledger: Ledger) -> None:
    page = propose(guest, ANN, "$5/day")
    ledger.set_limits(ANN, parse_limits("$3/day"))
    late = propose(guest, ANN, "$5/day", 409, stamp=stamp(page), apply="yes")
    assert "changed meanwhile" in late.all("p", role="alert")[0].text
    assert "$3/day $5/day" in late.all("table", class_="diff")[0].text
    assert ledger.limits(ANN) == parse_limits("$3/day")
    propose(guest, ANN, "$5/day", 409, stamp="", apply="yes")
    answer = guest.post(
        f"limits/{ANN}", token=guest.token(), limits="$5/day", stamp=stamp(late), apply="yes"
    )
    assert answer.status_code == 303


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5 foo", "limits nothing that is counted"),
        ("5 calls/day + 6 calls/day", "limits must differ"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_a_malformed_line_is_refused_in_the_parsers_words(
    guest: Visitor, ledger: Ledger, line: str, said: str
) -> None:
    page = propose(guest, ANN, line, 422)
    assert said in page.all("p", role="alert")[0].text
    assert page.part("limits").attributes["value"] == line
    propose(guest, ANN, line, 422, apply="yes", stamp="[]")
    assert set(ledger.limits(ANN)) == set(make_ledger().limits(ANN))


def test_limits_without_a_cap_stay_as_no_line_can_say_them(guest: Visitor, ledger: Ledger) -> None:
    assert line_of(ledger.limits("acme/ops")) == "$4/day"
    assert "calls per day" in guest.see("account/acme/ops").part("limits-hint").text
    page = propose(guest, "acme/ops", "$6/day")
    token = guest.token("account/acme/ops")
    fields = {"token": token, "limits": "$6/day", "stamp": stamp(page), "apply": "yes"}
    assert guest.post("limits/acme/ops", **fields).status_code == 303
    assert set(ledger.limits("acme/ops")) == {Limit("usd", 6, "day"), Limit("calls", None, "day")}


def test_nothing_removes_all_limits_of_an_account(guest: Visitor, ledger: Ledger) -> None:
    page = propose(guest, "other", "  ")
    assert "removed $7/month $3.00 its count ends" in page.text
    fields = {"token": guest.token(), "limits": "", "stamp": stamp(page), "apply": "yes"}
    assert guest.post("limits/other", **fields).status_code == 303
    assert ledger.limits("other") == []


def test_a_new_account_is_found_by_search_and_gets_its_first_limits(
    guest: Visitor, ledger: Ledger
) -> None:
    (link,) = guest.see("?q=acme/new").part("accounts").all("a")[2:]
    assert link.text == "Set limits of acme/new"
    page = propose(guest, "acme/new", "7 calls/hour")
    fields = {"token": guest.token(), "limits": "7 calls/hour", "stamp": stamp(page), "apply": "y"}
    assert guest.post("limits/acme/new", **fields).status_code == 303
    assert ledger.limits("acme/new") == parse_limits("7 calls/hour")


def test_what_changes_nothing_says_so(guest: Visitor, ledger: Ledger) -> None:
    page = propose(guest, "other", "$7.00/month")
    assert "Nothing would change" in page.text
    assert not page.all("button", name="apply")
