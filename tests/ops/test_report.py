"""Reports: what is summed, and what each format writes."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest

from budget_cpython import Ledger, parse_limits
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent
from budget_cpython.ops.report import SpendingReport, read_report
from budget_cpython.ops.report_tables import FOCUS_COLUMNS, as_csv, as_focus, as_json, usd
from budget_cpython.ops.spending import check_columns, spending_by
from budget_cpython.page.report_page import as_html

NOON = 1_763_899_200  # 2025-11-23T12:00:00Z
CENT = 10_000_000
HOSTILE = "<script>alert(1)</script>"


def row(hours_ago: int, path: str, model: str, cents: int, tool: str = "") -> HourOfUsage:
    amounts = {"tool_calls": 2} if tool else {"nano_usd": cents * CENT, "tokens": 100, "calls": 1}
    return HourOfUsage(NOON - hours_ago * HOUR_S, path, model, tool, amounts)


ROWS = [
    row(0, "acme/a", "o4", 30),
    row(1, "acme/a", "o4", 20),
    row(1, "acme/b", "openai/gpt-5", 40),
    row(1, "acme/b", "", 0, "search"),
    row(26, "acme/b", HOSTILE, 5),
]


def ledger_with(rows: list[HourOfUsage]) -> Ledger:
    ledger = Ledger(clock=lambda: NOON)
    ledger.set_limits("acme", parse_limits("$1/day"))
    ledger.charge("acme/a", {"usd": "0.95"})
    ledger.add_usage(rows)
    limit = {
        "account": "acme",
        "axis": "nano_usd",
        "window": "day",
        "cap": 10**9,
        "spent": 95 * CENT,
    }
    limit |= {"held": 0, "resets_at": NOON + 12 * HOUR_S}
    refused = {"limit": limit, "asked": 10 * CENT, "times": 7}
    crossed = {"axis": "nano_usd", "window": "day", "begins_at": NOON - 12 * HOUR_S, "percent": 80}
    crossed |= {"resets_at": NOON + 12 * HOUR_S, "cap": 10**9, "spent": 95 * CENT}
    ledger.note(
        [LedgerEvent("refused", "acme/a", refused), LedgerEvent("threshold", "acme", crossed)]
    )
    return ledger


def report(rows: list[HourOfUsage] = ROWS, path: str = "", hours: int = 48) -> SpendingReport:
    return read_report(ledger_with(rows), path, NOON - hours * HOUR_S, NOON + 1, NOON)


def test_what_was_used_is_summed_by_columns_the_most_first() -> None:
    found = spending_by(ROWS, ("model",))
    assert [(one.names, one.rank[0]) for one in found] == [
        (("o4",), 50 * CENT),
        (("openai/gpt-5",), 40 * CENT),
        ((HOSTILE,), 5 * CENT),
        (("",), 0),
    ]
    assert spending_by(ROWS, ("account", "tool"))[0].names == ("acme/a", "")


def test_days_and_hours_are_in_their_order() -> None:
    found = spending_by(ROWS, ("day", "model"))
    assert [one.names for one in found][:2] == [("2025-11-22", HOSTILE), ("2025-11-23", "o4")]
    assert spending_by(ROWS, ("hour",))[-1].names == ("2025-11-23T12:00:00Z",)


@pytest.mark.parametrize("by", [["modell"], ["model", "model"], []])
def test_other_columns_are_refused(by: list[str]) -> None:
    with pytest.raises(ValueError, match="column"):
        check_columns(by)


def test_a_report_has_its_time_and_path_alone() -> None:
    assert {one.hour for one in report(hours=2).rows} == {NOON, NOON - HOUR_S}
    assert {one.path for one in report(path="acme/a").rows} == {"acme/a"}
    assert report().refused == 7
    assert report(hours=2).of_kind("threshold")
    earlier = read_report(ledger_with(ROWS), "", NOON - 9 * HOUR_S, NOON - HOUR_S, NOON)
    assert not earlier.rows
    assert not earlier.events


def test_csv_has_exact_dollars_and_no_formulas() -> None:
    rows = [*ROWS, row(0, "acme/a", "=HYPERLINK(1)", 1)]
    found = list(csv.DictReader(io.StringIO(as_csv(report(rows), ("model",)))))
    assert found[0] == {
        "model": "o4",
        "usd": "0.5",
        "nano_usd": str(50 * CENT),
        "tokens": "200",
        "calls": "2",
        "tool_calls": "0",
    }
    assert "'=HYPERLINK(1)" in [one["model"] for one in found]


@pytest.mark.parametrize(
    ("nano_usd", "text"), [(0, "0"), (1, "0.000000001"), (10**9, "1"), (1_500_000_000, "1.5")]
)
def test_dollars_are_decimal_numbers(nano_usd: int, text: str) -> None:
    assert usd(nano_usd) == text


def test_json_has_the_sums_and_the_events() -> None:
    found = json.loads(as_json(report(), ("account",)))
    assert found["total"] == {"nano_usd": 95 * CENT, "tokens": 400, "calls": 4, "tool_calls": 2}
    assert [one["account"] for one in found["rows"]] == ["acme/a", "acme/b"]
    assert [one["kind"] for one in found["events"]] == ["limits", "refused", "threshold"]


def test_focus_has_a_charge_for_each_hour_account_and_model() -> None:
    found = list(csv.DictReader(io.StringIO(as_focus(report()))))
    assert len(found) == 4  # the tool has no price
    assert tuple(found[0]) == FOCUS_COLUMNS
    (gpt,) = [one for one in found if one["SkuId"] == "openai/gpt-5"]
    assert (gpt["BilledCost"], gpt["ProviderName"]) == ("0.4", "openai")
    assert gpt["ChargePeriodStart"] == "2025-11-23T11:00:00Z"
    assert gpt["BillingPeriodEnd"] == "2025-12-01T00:00:00Z"
    assert gpt["SubAccountId"] == "acme/b"


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_html_needs_nothing_else_and_runs_nothing() -> None:
    page = as_html(report(), ())
    found = Tags(page)
    assert "script" not in found.tags
    assert "link" not in found.tags
    assert not found.addresses
    assert "&lt;script&gt;" in page
    assert "$0.95" in page
    assert page.count("is-refused") >= 2  # in the chart and its legend
    assert page.count("is-crossed") >= 2


def test_html_counts_calls_of_models_by_account_and_those_of_tools_by_tool() -> None:
    page = as_html(report(), ())
    models, accounts, tools = (
        page.split(f"<h2>{name}</h2>")[1].split("</section>")[0]
        for name in ("Models", "Accounts", "Tools")
    )
    calls = [re.findall('number">([0-9,]+)</td></tr>', one) for one in (models, accounts, tools)]
    assert calls == [["2", "1", "1"], ["2", "2"], ["2"]]


def test_html_of_a_time_without_usage_says_so() -> None:
    page = as_html(report([]), ())
    assert "No usage is known of this time." in page


def test_many_models_share_the_last_colour() -> None:
    rows = [row(0, "acme/a", f"model-{number:02}", 50 - number) for number in range(12)]
    page = as_html(report(rows), ())
    assert "others" in page
    assert 'class="m6"' in page
    assert 'class="m7"' not in page


@pytest.mark.parametrize("hours", [1, 96, 97, 24 * 400])
def test_a_chart_has_a_bar_for_each_hour_or_day_with_usage(hours: int) -> None:
    page = as_html(report(ROWS[:1], hours=hours), ())
    assert page.count("<g><title>") == 1
