"""Models that answer in another manner than the agent of `model`, chosen by their names."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from scripted_model.calls import CHARS_PER_TOKEN, Asked, Reply, ScriptedToolCall
from scripted_model.checks import Json
from scripted_model.model import next_reply

LONG_TOKENS: Final = 1000
_WORD: Final = "word "
_SAMPLES: Final[dict[str, Any]] = {
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


class Script(NamedTuple):
    """What a model replies to what is asked, and its line of help."""

    reply: Callable[[Asked], Reply]
    says: str


def script_of(model: str) -> Callable[[Asked], Reply]:
    """Return the script of a model's replies."""
    return SCRIPTS[model].reply if model in SCRIPTS else next_reply


def _long(asked: Asked) -> Reply:
    wanted = LONG_TOKENS if asked.max_tokens is None else asked.max_tokens + 1
    return Reply((_WORD * wanted)[: wanted * CHARS_PER_TOKEN])


def _parallel(asked: Asked) -> Reply:
    answered = asked.messages and asked.messages[-1]["role"] == "tool"
    if answered and not asked.forced:
        return Reply("The tools have answered.")
    calls = [
        ScriptedToolCall(name, json.dumps(_arguments(asked.tools[name]))) for name in asked.tools
    ]
    return Reply("" if calls else "There are no tools.", tuple(calls))


def _arguments(schema: Json) -> Json:
    """Return arguments with the fields that the schema requires."""
    fields = schema.get("properties") or {}
    return {name: _sample(fields.get(name) or {}) for name in schema.get("required") or ()}


def _sample(field: Json) -> Any:
    if field.get("enum"):
        return field["enum"][0]
    return _SAMPLES.get(str(field.get("type")).lower(), "tomato")


SCRIPTS: Final = {
    "long": Script(_long, f"answers until its limit; {LONG_TOKENS} tokens if it has none"),
    "parallel": Script(_parallel, "calls all tools on offer at once, then answers"),
}
