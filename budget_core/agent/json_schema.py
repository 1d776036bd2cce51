"""Check a tool's arguments against their JSON schema, in words that help the model to correct them.

Checked are `type`, `enum`, `const`, the bounds of numbers and lengths, `properties`, `required`,
`additionalProperties`, `items`, `prefixItems`, `allOf`, `anyOf`, `oneOf` and a local `$ref`, as
draft 2020-12 has them. All else, `pattern` and `format` too, is ignored.
"""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 32
_MAX_STEPS = 1 << 15
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_BOUNDS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}
_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")


def check_schema(name: str, schema: "Any") -> "dict[str, Any]":
    """Return the JSON schema of a tool's arguments: an object's, at most 32 schemas deep.

    Raises `ValueError` for a malformed keyword and for a `$ref` that leads nowhere.
    """
    from budget_core.errors import refuse

    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        refuse(name, 'a JSON schema whose type is "object"', schema)
    seen: set[int] = set()
    found: list[tuple[str, Any, int]] = [(name, schema, 0)]
    for place, part, depth in found:  # it grows meanwhile
        if depth > _MAX_DEPTH:
            raise ValueError(f"{name} must be nested {_MAX_DEPTH} schemas deep at most")
        if isinstance(part, bool) or id(part) in seen:
            continue
        if not isinstance(part, dict):
            refuse(place, "a JSON schema", part)
        seen.add(id(part))
        for keyword, value in part.items():
            inner = f"{place}.{keyword}"
            if keyword == "$ref":
                try:
                    found.append((inner, _target(schema, value), 0))
                except (AttributeError, LookupError, TypeError, ValueError):
                    refuse(inner, 'a place in this schema, such as "#/$defs/name"', value)
            elif rule := _unlike(keyword, value):
                refuse(inner, rule, value)
            elif keyword in ("items", "additionalProperties"):
                found.append((inner, value, depth + 1))
            elif keyword in _NAMED:
                found.extend([(f"{inner}.{each}", value[each], depth + 1) for each in value])
            elif keyword in _LISTED:
                found.extend([(inner, each, depth + 1) for each in value])
    return schema


def complaint_about(schema: "Any", value: "Any") -> str | None:
    """Return what is wrong with a JSON value, in one sentence, or `None` if it fits the schema.

    `check_schema` has accepted the schema. A value that takes too many steps to check does not fit.
    """
    try:
        found = _Checker(schema).find(schema, value, 0)
        if found is None:
            return None
        place, rule, sent = found
        return f"arguments{place} must {rule}" + (
            ", not " + _shown(sent) if rule[:2] == "be" else ""
        )
    except RuntimeError:  # also where the stack of a chip ends first
        return "arguments must be simpler: this is too deep or too long to check"


class _Checker:
    """Finds what is wrong: the place within the value, the rule, and what is there instead."""

    def __init__(self, root: "Any") -> None:
        self._root = root
        self._steps = 0

    def find(self, schema: "Any", value: "Any", depth: int) -> "tuple[str, str, Any] | None":
        while True:
            self._steps += 1
            depth += 1
            if depth > 3 * _MAX_DEPTH or self._steps > _MAX_STEPS:
                raise RuntimeError
            if isinstance(schema, bool):
                return None if schema else ("", "not be given", value)
            if rule := _broken_rule(schema, value):
                return "", rule, value
            found = self._inside(schema, value, depth) or self._combined(schema, value, depth)
            if found or "$ref" not in schema:
                return found
            schema = _target(self._root, schema["$ref"])

    def _inside(self, schema: "Any", value: "Any", depth: int) -> "tuple[str, str, Any] | None":
        if isinstance(value, list):
            first, rest = schema.get("prefixItems", ()), schema.get("items", True)
            names: Any = range(len(value))
        elif isinstance(value, dict):
            for name in schema.get("required", ()):
                if name not in value:
                    return "", "have " + _shown(name), value
            first = schema.get("properties", ())
            rest = "patternProperties" in schema or schema.get("additionalProperties", True)
            names = sorted(value)
        else:
            return None
        for name in names:
            known = name in first if isinstance(value, dict) else name < len(first)
            part = first[name] if known else rest
            if part is not True and (found := self.find(part, value[name], depth)):
                shown = _shown(name)
                place = "." + shown[1:-1] if isinstance(value, dict) else "[" + shown + "]"
                return place + found[0], found[1], found[2]
        return None

    def _combined(self, schema: "Any", value: "Any", depth: int) -> "tuple[str, str, Any] | None":
        for part in schema.get("allOf", ()):
            if found := self.find(part, value, depth):
                return found
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                wrong = [self.find(part, value, depth) for part in schema[keyword]]
                if None not in wrong:
                    return _closest(wrong)
                if keyword == "oneOf" and wrong.count(None) > 1:
                    return "", "be of one kind only", value
        return None


def _closest(wrong: "Any") -> "tuple[str, str, Any]":
    """Return the complaints from deepest within as one."""
    place, _, value = max(wrong, key=lambda found: len(found[0]))
    rules = sorted({found[1] for found in wrong if found[0] == place})
    return place, _cut(" or ".join(rules), 240), value


def _broken_rule(schema: "dict[str, Any]", value: "Any") -> str:
    kind = _kind(value)
    if types := schema.get("type"):
        types = [types] if isinstance(types, str) else types
        if kind not in types and (kind != "integer" or "number" not in types):
            words = [("an " if name[0] in "aio" else "a ") + name for name in types]
            return "be " + " or ".join(words).replace("a null", "null")
    if "enum" in schema and not any(_same(each, value) for each in schema["enum"]):
        return "be one of " + _cut(", ".join([_shown(each) for each in schema["enum"]]), 240)
    if "const" in schema and not _same(schema["const"], value):
        return "be " + _shown(schema["const"])
    names = _BOUNDS.get("number" if kind == "integer" else kind, ())
    size = len(value) if kind in ("string", "array") else value
    for place, keyword in enumerate(names):
        bound = schema.get(keyword)
        if bound is not None and (size < bound, size > bound, size <= bound, size >= bound)[place]:
            text = ("at least ", "at most ", "above ", "below ")[place] + _shown(bound)
            return "be " + text + (" long" if len(names) == 2 else "")
    return ""


def _unlike(keyword: str, value: "Any") -> str:
    """Return what a keyword's value must be where it is not, else an empty text."""
    if keyword == "type":
        names = value if isinstance(value, list) else [value]
        return "" if names and all(n in _TYPES for n in names) else ", ".join(_TYPES)
    if keyword in _NAMED:
        return "" if isinstance(value, dict) else "an object"
    if keyword == "required":
        good = isinstance(value, list) and all(isinstance(name, str) for name in value)
        return "" if good else "a list of strings"
    if keyword == "enum" or keyword in _LISTED:
        return "" if isinstance(value, list) and value else "a list that is not empty"
    number = _kind(value) in ("integer", "number")
    return "a number" if not number and any(keyword in _BOUNDS[kind] for kind in _BOUNDS) else ""


def _target(root: "Any", pointer: str) -> "Any":
    """Return what a local `$ref` leads to; an error of any kind where it leads nowhere."""
    first, *names = pointer.split("/")
    if first != "#":
        raise ValueError
    for name in names:
        name = name.replace("~1", "/").replace("~0", "~")
        root = root[int(name) if isinstance(root, list) else name]
    return root


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
