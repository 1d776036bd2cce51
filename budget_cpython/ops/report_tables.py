"""A report as CSV, as JSON, and as FOCUS, the FinOps specification of costs and usage."""

import calendar
import csv
import io
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ops.report import SpendingReport
from budget_cpython.ops.spending import Spending, spending_by, total_of
from budget_cpython.ops.words import time_text

AXES = ("nano_usd", "tokens", "calls", "tool_calls")
_NANO = 10**9
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Version 1.0, https://focus.finops.org; a column that this list does not set is null.
_FOCUS = """
AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd
BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargeFrequency ChargePeriodEnd
ChargePeriodStart CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName
CommitmentDiscountStatus CommitmentDiscountType ConsumedQuantity ConsumedUnit ContractedCost
ContractedUnitPrice EffectiveCost InvoiceIssuerName ListCost ListUnitPrice PricingCategory
PricingQuantity PricingUnit ProviderName PublisherName RegionId RegionName ResourceId ResourceName
ResourceType ServiceCategory ServiceName SkuId SkuPriceId SubAccountId SubAccountName Tags
"""
FOCUS_COLUMNS = tuple(_FOCUS.split())


def as_csv(report: SpendingReport, by: Sequence[str]) -> str:
    """Return a report as CSV, with a line for each sum, and dollars as a decimal number.

    A name that a spreadsheet would take for a formula has an apostrophe before it.
    """
    axes = _axes(report)
    rows: list[list[Any]] = [[*by, "usd", *axes]]
    for one in spending_by(report.rows, by):
        amounts = [one.amounts.get(axis, 0) for axis in axes]
        rows.append([*map(_no_formula, one.names), usd(one.amounts.get("nano_usd", 0)), *amounts])
    return _written(rows)


def as_json(report: SpendingReport, by: Sequence[str]) -> str:
    """Return a report as one object of JSON; times are Unix seconds, money is in `nano_usd`."""
    found = {
        "path": report.path,
        "since": report.since,
        "until": report.until,
        "total": total_of(report.rows),
        "refused": report.refused,
        "by": list(by),
        "rows": [_named(one, by) for one in spending_by(report.rows, by)],
        "events": [
            {"at": one.at, "kind": one.kind, "account": one.account, "details": one.details}
            for one in report.events
        ],
    }
    return json.dumps(found) + "\n"


def as_focus(report: SpendingReport) -> str:
    """Return a report as CSV with the columns of FOCUS 1.0: a charge an hour, account and model.

    The billing account is the first segment of the path, the sub-account the whole. Provider,
    publisher and issuer are what is before a `/` of the model's name, else `unknown`.
    """
    rows: list[Sequence[Any]] = [FOCUS_COLUMNS]
    for row in report.rows:
        if row.model or row.amounts.get("nano_usd"):  # a tool costs something if it has a price
            charge = _charge(row)
            rows.append([charge.get(name, "") for name in FOCUS_COLUMNS])
    return _written(rows)


def usd(nano_usd: int) -> str:
    """Return dollars as a decimal number, exactly."""
    whole, rest = divmod(nano_usd, _NANO)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".") if rest else str(whole)


def _axes(report: SpendingReport) -> list[str]:
    """Return the axes of a report's columns: the usual ones, and others that were used."""
    used = {axis for row in report.rows for axis in row.amounts}
    return [*AXES, *sorted(used.difference(AXES))]


def _named(one: Spending, by: Sequence[str]) -> dict[str, Any]:
    return {**dict(zip(by, one.names, strict=True)), "amounts": one.amounts}


def _charge(row: HourOfUsage) -> dict[str, str]:
    cost, name = usd(row.amounts.get("nano_usd", 0)), _no_formula(row.model or row.tool)
    vendor, slash, _ = name.partition("/")
    vendor = vendor if slash and vendor else "unknown"
    root, begins = row.path.partition("/")[0], time.gmtime(row.hour)
    month = calendar.timegm((begins.tm_year, begins.tm_mon, 1, 0, 0, 0))
    after = calendar.timegm((begins.tm_year, begins.tm_mon + 1, 1, 0, 0, 0))
    unit, quantity = "Tokens", row.amounts.get("tokens", 0)
    if not row.model:
        unit, quantity = "Calls", row.amounts.get("tool_calls", 0)
    both = {
        ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"): cost,
        ("BillingAccountId", "BillingAccountName"): root,
        ("ConsumedQuantity", "PricingQuantity"): f"{quantity}.0",  # FOCUS' validator wants decimals
        ("ConsumedUnit", "PricingUnit"): unit,
        ("InvoiceIssuerName", "ProviderName", "PublisherName"): vendor,
        ("ResourceId", "ResourceName", "ServiceName", "SkuId", "SkuPriceId"): name,
        ("SubAccountId", "SubAccountName"): row.path,
    }
    return {column: said for columns, said in both.items() for column in columns} | {
        "BillingCurrency": "USD",
        "BillingPeriodStart": time_text(month),
        "BillingPeriodEnd": time_text(after),
        "ChargeCategory": "Usage",
        "ChargeDescription": f"Calls of {name}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": time_text(row.hour),
        "ChargePeriodEnd": time_text(row.hour + HOUR_S),
        "PricingCategory": "Standard",
        "ResourceType": "Model" if row.model else "Tool",
        "ServiceCategory": "AI and Machine Learning",
        "Tags": json.dumps({"model": row.model, "tool": row.tool}),
    }


def _no_formula(name: str) -> str:
    return f"'{name}" if name.startswith(_FORMULA) else name


def _written(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
