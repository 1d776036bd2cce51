"""Read the usage of a call, with all units that its vendor bills."""

from dataclasses import asdict, is_dataclass

from budget_core.prices import has_more
from budget_core.usage import Usage, read_usage
from budget_cpython.vendors.units import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from budget_cpython.vendors.units import BilledUnit

_TRAFFIC = {"ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_FLEX": "flex"}  # Vertex AI's words
_SHARES = ("cache_creation", "output_tokens_details", "iterations")
_PLACES: "Final" = {
    place: [row for row in UNITS if row.where == place]
    for place in {row.where for row in UNITS if row.where}
}


class BilledUsage(Usage):
    """The usage of one call, with the units that its vendor bills beside plain tokens.

    - `units`: how many of each unit of the table `UNITS` the report names, zeros included.
    - `full`: whether the table covers all that the report names.
    - `tier`, `speed`, `region`: the vendor's words; `None` where it says nothing. `traffic` is
      Vertex AI's word for a tier, which counts where none was asked for.
    - `cost`: what the vendor says it billed, in US dollars.
    - `parts`: the calls that it stands for, such as the iterations of a message, if it lists them;
      each with its `model`, `None` for the one that was asked for.
    """

    tier: str | None = None
    traffic: str | None = None
    speed: str | None = None
    region: str | None = None
    cost: float | None = None
    model: str | None = None
    full = True

    def __init__(self, usage: Usage) -> None:
        vars(self).update(vars(usage))
        self.units: "dict[BilledUnit, float]" = {}
        self.parts: list[BilledUsage] = []


def billed_usage(report: "Any") -> BilledUsage:
    """Return the usage in a vendor's report, or in a `Usage` with one. Never raises.

    A report is a dict, an object of a vendor's SDK, or `None`.
    """
    if isinstance(report, BilledUsage):
        return report
    found = BilledUsage(read_usage(report))
    try:
        found.cost = _cost_in(found.report)  # counts where nothing else can be read
        _fill(found, as_json(found.report))
    except Exception:  # noqa: BLE001 - a foreign report may have any form, or have no end
        found.full = False
        found.units, found.parts = {}, []
    return found


def _cost_in(report: "Any") -> float | None:
    cost = report.get("cost") if isinstance(report, dict) else getattr(report, "cost", None)
    cost = cost.get("total_cost") if isinstance(cost, dict) else cost  # as Perplexity says it
    return cost if type(cost) in (int, float) else None


def _fill(found: BilledUsage, report: "dict[str, Any]") -> None:
    """Take everything from a report but its tokens."""
    traffic: "Any" = report.get("trafficType")
    found.tier, found.traffic = report.get("service_tier"), _TRAFFIC.get(traffic, traffic)
    found.speed, found.region = report.get("speed"), report.get("inference_geo")
    told = ("trafficType", "service_tier", "speed", "inference_geo")
    rest = {name: report[name] for name in report if name not in told}
    iterations = rest.get("iterations")
    if iterations and isinstance(iterations, list):
        found.parts = _parts(found.total, iterations, rest)
    if not found.parts:
        left = _take(found, rest)
        found.full = found.full and not has_more(left)


def _parts(total: int, iterations: "list[Any]", rest: "dict[str, Any]") -> list[BilledUsage]:
    """Return the iterations of a message, and what it used beside them; none if they lack some."""
    parts = []
    for iteration in iterations:
        own = {name: iteration[name] for name in iteration if name not in ("type", "model")}
        part = billed_usage(own)
        part.model = iteration.get("model")
        if not isinstance(part.model, str | None):
            raise ValueError(f"a model has no name: {part.model}")
        parts.append(part)
    if sum(part.total for part in parts) != total:
        return []
    beside = {name: rest[name] for name in rest if not name.endswith("_tokens")}
    for name in _SHARES:
        beside.pop(name, None)
    tokens = {"input_tokens": 0, "output_tokens": 0}
    return [*parts, billed_usage({**beside, **tokens})]


def _take(found: BilledUsage, value: "Any", where: str = "") -> "Any":
    """Count the units in a value of a report; return what no row covers, `None` if all is."""
    rows = _PLACES.get(where)
    if rows is not None:
        if type(value) in (int, float) and 0 <= value <= Usage.MOST:
            for row in rows:
                found.units[row] = found.units.get(row, 0) + value
        elif value is not None:
            found.full = False
        return None
    if isinstance(value, dict):
        left = {one: _take(found, value[one], f"{where}.{one}" if where else one) for one in value}
        return {name: left[name] for name in left if left[name] is not None}
    if isinstance(value, list):
        entries = [_take_entry(found, entry, where) for entry in value]
        return [entry for entry in entries if entry is not None]
    return value


def _take_entry(found: BilledUsage, entry: "Any", where: str) -> "Any":
    """Count the units in an entry of a list, whose place is named by its modality."""
    if not isinstance(entry, dict):
        return entry
    name = f"{where}.{entry.get('modality') or entry.get('ttl')}"
    covers = any(f"{name}.{field}" in _PLACES for field in entry)
    left = _take(found, entry, name)
    return None if covers else left


def as_json(report: "Any") -> "dict[str, Any]":
    """Return a report, a dict or an object of an SDK, as it came in JSON.

    Raises whatever the object does.
    """
    found: "dict[str, Any]" = _plain({} if report is None else report)
    return _camel(found) if "prompt_token_count" in found else found  # as google-genai has them


def _camel(value: "Any") -> "Any":
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name[:1] + name.title().replace("_", "")[1:]: _camel(item) for name, item in value.items()
    }


def _plain(value: "Any") -> "Any":
    if isinstance(value, dict):
        return {str(name): _plain(value[name]) for name in value}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(getattr(value, "value", value))  # of an enum
    if hasattr(value, "model_dump"):  # pydantic's
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    return _plain(vars(value))
