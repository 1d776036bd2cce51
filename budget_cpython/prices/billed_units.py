"""Read from a provider's report what it bills, in the units of genai-prices."""

import copy
from dataclasses import asdict, dataclass, is_dataclass

from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from genai_prices.types import Provider, UsageExtractor

_STANDARD = (None, "", "standard", "default", "on_demand", "ON_DEMAND", "STANDARD")
_TRAFFIC = {"ON_DEMAND_PRIORITY": "priority", "ON_DEMAND_FLEX": "flex"}  # Vertex AI's words
_TOKENS = ("input_tokens", "output_tokens")
_SHARES = ("cache_creation", "output_tokens_details", "iterations")


@dataclass
class Part:
    """One call to one model: what it used, and what its provider reported of it.

    `model` is `None` for the model that was asked for.
    """

    usage: Usage
    report: "dict[str, Any]"
    model: str | None = None


def as_dict(report: "Any") -> "dict[str, Any]":
    """Return a copy of a report, a dict or an object of an SDK, as it came in JSON.

    Raises whatever the object does.
    """
    found: dict[str, Any] = _plain({} if report is None else report)
    return _camel(found) if "prompt_token_count" in found else found  # as google-genai has them


def tariffs_of(report: "dict[str, Any]", tier: "Any", batch: bool) -> "dict[str, str]":
    """Take the tiers that are not the standard ones out of a report, in genai-prices' words."""
    traffic = report.pop("trafficType", None)
    tier = report.pop("service_tier", None) or tier
    tariffs = {"service_tier": tier or _TRAFFIC.get(traffic, traffic)}
    tariffs["speed"] = report.pop("speed", None)
    tariffs["processing"] = "batch" if batch or tier == "batch" else None
    if tier == "batch":
        tariffs["service_tier"] = None
    return {name: str(tariffs[name]) for name in tariffs if tariffs[name] not in _STANDARD}


def parts_of(usage: Usage, report: "dict[str, Any]") -> "list[Part]":
    """Return the calls that a report stands for: Anthropic lists the iterations of a message."""
    iterations = report.get("iterations")
    if not isinstance(iterations, list) or not iterations:
        return [Part(usage, report)]
    parts = []
    for iteration in iterations:
        own = {name: iteration[name] for name in iteration if name not in ("type", "model")}
        parts.append(Part(read_usage(own), own, iteration.get("model")))
    if sum(part.usage.total for part in parts) != usage.total:
        return [Part(usage, report)]
    rest = {name: report[name] for name in report if not _is_sum(name)}
    return [*parts, Part(read_usage({}), {**rest, **dict.fromkeys(_TOKENS, 0)})]


def units_of(part: Part, provider: "Provider") -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the units that a report bills, by name, and what of it is not understood.

    That is by the form of the provider's reports that explains most of it, and agrees with the
    tokens as the core counts them.
    """
    found = [_by_form(part, provider, form) for form in provider.extractors or ()]
    best = max((one for one in found if one), key=lambda one: one[0], default=None)
    if best is None or not best[0][0]:
        return _counted(part.usage), part.report
    return best[1], best[2]


def _by_form(part: Part, provider: "Provider", form: "UsageExtractor") -> "Any":
    """Return how well a form explains a report, its units, and the rest; `None` if it does not."""
    root = [form.root] if isinstance(form.root, str) else list(form.root)
    inner = [root.pop()] if root[-1] in part.report else []
    data: Any = part.report
    for name in reversed(root):
        data = {name: data}
    try:
        units = vars(provider.extract_usage(data, api_flavor=form.api_flavor)[1])
    except ValueError:
        return None
    rest = copy.deepcopy(part.report)
    explained = 0
    for mapping in form.mappings:
        path = [mapping.path] if isinstance(mapping.path, str) else mapping.path
        explained += _remove(rest, [*inner, *path])
    return (_agrees(part.usage, units), explained), units, rest


def _agrees(usage: Usage, units: "dict[str, Any]") -> bool:
    tokens = units.get("input_tokens", 0) + units.get("output_tokens", 0)
    cached = units.get("cache_read_tokens", 0), units.get("cache_write_tokens", 0)
    return (tokens, cached) == (usage.total, (usage.cached, usage.cache_written))


def _counted(usage: Usage) -> dict[str, int]:
    prompt = min(usage.total, usage.input or 0)
    return {
        "input_tokens": prompt,
        "output_tokens": usage.total - prompt,
        "cache_read_tokens": min(usage.cached, prompt),
        "cache_write_tokens": min(usage.cache_written, prompt),
        "output_reasoning_tokens": min(usage.reasoning, usage.total - prompt),
    }


def _is_sum(name: str) -> bool:
    return name.endswith("_tokens") or name in _SHARES


def _remove(report: "Any", path: "Sequence[Any]") -> bool:
    """Remove what a path of names, and of what picks an entry of a list, leads to, if anything."""
    *steps, last = path
    for place, step in enumerate(steps):
        if isinstance(step, str):
            report = report.get(step) if isinstance(report, dict) else None
        elif isinstance(report, list):
            entry = step.extract(report)
            if entry is not None and place == len(steps) - 1:
                report.remove(entry)
                return True
            report = entry
    if not isinstance(report, dict) or isinstance(report.get(last), (bool, str)):
        return False
    return report.pop(last, None) is not None


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
