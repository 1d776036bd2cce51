"""JSON schemas of tools' arguments: the checks of a schema, and of arguments by it.

Checked are `type`, `enum`, `required` and the bounds of numbers and lengths, within `properties`,
`additionalProperties` and `items`, as draft 2020-12 has them. Keywords that only describe pass. Any
other is refused when the tool is made: what looks like a check must not be ignored. On CPython
`jsonschema` checks them, where it is installed.
"""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 32
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_BOUNDS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}
_CHECKED = "type, enum, required, properties, additionalProperties, items, a bound"
_NOTES = "$schema $comment title description default examples format deprecated readOnly writeOnly"


def check_schema(name: str, schema: "Any", strict: bool = True) -> "dict[str, Any]":
    """Return the JSON schema of a tool's arguments: an object's, at most 32 schemas deep.

    Raises `ValueError` for a malformed keyword, and where `strict` for one that is not checked.
    """
    from budget_core.errors import refuse

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        refuse(name, 'a JSON schema whose type is "object"', schema)
    found: list[tuple[str, Any, int]] = [(name, schema, 0)]
    for place, part, depth in found:  # it grows meanwhile
        if depth > _MAX_DEPTH:
            raise ValueError(f"{name} must be nested {_MAX_DEPTH} schemas deep at most")
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            refuse(place, "a JSON schema", part)
        for keyword, value in part.items():
            inner = f"{place}.{keyword}"
            rule = _unlike(keyword, value)
            if rule is None and strict and keyword not in _NOTES.split():
                refuse(inner, f"one of the keywords that are checked: {_CHECKED}", keyword)
            if rule:
                refuse(inner, rule, value)
            if keyword in ("items", "additionalProperties"):
                found.append((inner, value, depth + 1))
            elif keyword == "properties":
                found.extend([(f"{inner}.{each}", value[each], depth + 1) for each in value])
    return schema


def complaint_about(schema: "Any", value: "Any") -> str | None:
    """Return the fault of a JSON value in one sentence, or `None` if it fits the schema.

    `check_schema` has accepted the schema.
    """
    try:
        found = _find(schema, value)
        if found is None:
            return None
        place, rule, sent = found
        return f"arguments{place} must {rule}" + (
            ", not " + _shown(sent) if rule[:2] == "be" else ""
        )
    except RuntimeError:  # where the stack of a chip ends first
        return "arguments must be simpler: this is too deep to check"


def _find(schema: "Any", value: "Any") -> "tuple[str, str, Any] | None":
    """Return the place within a value that is wrong, the rule, and what is there instead."""
    if isinstance(schema, bool):
        return None if schema else ("", "not be given", value)
    if rule := _broken_rule(schema, value):
        return "", rule, value
    first: dict[str, Any] = {}
    if isinstance(value, list):
        rest = schema.get("items", True)
        names: Any = range(len(value))
    elif isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return "", "have " + _shown(name), value
        first = schema.get("properties", first)
        rest = schema.get("additionalProperties", True)
        names = sorted(value)
    else:
        return None
    for name in names:
        part = first.get(name, rest)
        if part is not True and (found := _find(part, value[name])):
            shown = _shown(name)
            place = "." + shown[1:-1] if isinstance(value, dict) else "[" + shown + "]"
            return place + found[0], found[1], found[2]
    return None


def _broken_rule(schema: "dict[str, Any]", value: "Any") -> str:
    kind = _kind(value)
    if types := schema.get("type"):
        types = [types] if isinstance(types, str) else types
        if kind not in types and (kind != "integer" or "number" not in types):
            words = [("an " if name[0] in "aio" else "a ") + name for name in types]
            return "be " + " or ".join(words).replace("a null", "null")
    if "enum" in schema and not any(_same(each, value) for each in schema["enum"]):
        return "be one of " + _cut(", ".join([_shown(each) for each in schema["enum"]]), 240)
    names = _BOUNDS.get("number" if kind == "integer" else kind, ())
    size = len(value) if kind in ("string", "array") else value
    for place, keyword in enumerate(names):
        bound = schema.get(keyword)
        if bound is not None and (size < bound, size > bound, size <= bound, size >= bound)[place]:
            text = ("at least ", "at most ", "above ", "below ")[place] + _shown(bound)
            return "be " + text + (" long" if len(names) == 2 else "")
    return ""


def _unlike(keyword: str, value: "Any") -> str | None:
    """Return the rule that a keyword's value breaks, `""` if none.

    `None` for a keyword that is not checked.
    """
    if keyword == "type":
        names = value if isinstance(value, list) else [value]
        return "" if names and all(n in _TYPES for n in names) else ", ".join(_TYPES)
    if keyword == "properties":
        return "" if isinstance(value, dict) else "an object"
    if keyword == "required":
        good = isinstance(value, list) and all(isinstance(name, str) for name in value)
        return "" if good else "a list of strings"
    if keyword == "enum":
        return "" if isinstance(value, list) and value else "a list that is not empty"
    if keyword in ("items", "additionalProperties"):
        return ""
    if any(keyword in _BOUNDS[kind] for kind in _BOUNDS):
        return "" if _kind(value) in ("integer", "number") else "a number"
    return None


def _kind(value: "Any") -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value % 1 == 0 else "number"
    for kind, name in ((str, "string"), (int, "integer"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null"


def _same(one: "Any", other: "Any") -> bool:
    """Tell whether two JSON values are equal: `1` is `1.0`, but not `true`."""
    kind = _kind(one)
    if kind == "object" and isinstance(other, dict):
        one, other = [[[name, each[name]] for name in sorted(each)] for each in (one, other)]
        kind = "array"
    if kind == "array" and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _shown(value: "Any") -> str:
    """Return a value as JSON on one line, cut short; of a list or an object only the brackets."""
    if isinstance(value, (list, dict)):
        return "[...]" if isinstance(value, list) else "{...}"
    return json.dumps(_cut(value, 60) if isinstance(value, str) else value)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3] + "..."
