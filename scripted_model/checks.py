"""The shapes that requests are checked against, and the error for an invalid one."""

import json
import re
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

_KINDS: Final = {str: "a string", bool: "a boolean", int: "an integer", dict: "an object"}


class ApiError(Exception):
    """A refusal: a status, a message, extra headers; each vendor's format words it its own way.

    `kind`, `param` and `code` are OpenAI's; another vendor derives its own from the status.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers or {}


class Count(NamedTuple):
    """The shape of an integer from `least` to `most`; `None`: any from `least` on."""

    least: int
    most: int | None = None


def match(value: Any, shape: Any, place: str = "") -> None:
    """Compare with a shape: a type, pattern, choice, `Count`, list of a shape, or object's fields.

    Raises `ApiError` 400 with the invalid field's name. A field whose name ends in `?` may be
    absent or null. A list has to have items, unless its shape ends in `...`.
    """
    if isinstance(shape, list):
        rule(isinstance(value, list), place, "must be an array.")
        rule(value or shape[-1] is ..., place, "must be an array that is not empty.")
        for index, item in enumerate(value):
            match(item, shape[0], f"{place}[{index}]")
    elif isinstance(shape, Count):
        match(value, int, place)
        says = f"{shape.least} or more" if shape.most is None else f"{shape.least} to {shape.most}"
        valid = shape.least <= value and (shape.most is None or value <= shape.most)
        rule(valid, place, f"must be {says}.")
    elif isinstance(shape, tuple):
        rule(value in shape, place, f"must be one of: {', '.join(map(str, shape))}.")
    elif isinstance(shape, re.Pattern):
        valid = isinstance(value, str) and shape.fullmatch(value)
        rule(valid, place, f"must be a string like {shape.pattern}.")
    elif isinstance(shape, dict):
        match(value, dict, place)
        for name, inner in shape.items():
            field = name.removesuffix("?")
            if value.get(field) is not None or field == name:
                match(value.get(field), inner, f"{place}.{field}".lstrip("."))
    else:
        rule(type(value) is shape, place, f"must be {_KINDS[shape]}.")  # a bool is not an integer


def rule(holds: object, place: str, says: str) -> None:
    """Raise `ApiError` 400 about the field at `place`, unless the rule holds."""
    if not holds:
        raise ApiError(400, f"Invalid request: '{place}' {says}", param=place, code="invalid_value")


def check_turns(messages: list[Json], name: str = "messages") -> None:
    """Check that each tool call is answered once, before any other message.

    The messages are those of chat completions; `name` is the field that held them.
    """
    pending: set[str] = set()
    for index, message in enumerate(messages):
        place = f"{name}[{index}]"
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            says = "must answer one of the preceding 'tool_calls'."
            rule(message.get("tool_call_id") in pending, f"{place}.tool_call_id", says)
            pending.remove(message["tool_call_id"])
        else:
            rule(not pending, place, f"must be tool results for: {', '.join(sorted(pending))}.")
            pending = {call["id"] for call in calls}
        spoken = not calls or message["role"] == "assistant"
        rule(spoken, f"{place}.tool_calls", "belong to role 'assistant'.")
    rule(not pending, name, f"lack tool results for: {', '.join(sorted(pending))}.")


def parse_object(text: str) -> Any:
    """Return the JSON value of a tool call's arguments; an empty object if they were cut."""
    try:
        return json.loads(text)
    except ValueError:
        return {}
