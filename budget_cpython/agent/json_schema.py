"""The JSON schema of a tool's arguments, with all keywords where `jsonschema` is installed.

A schema of keywords that the core checks is left to it, in its own words.
"""

from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

from budget_core.agent import json_schema as core

_MAX_STEPS = 1 << 15
_LONGEST = 240  # characters of what the library says
_DATA = ("const", "default", "enum", "examples")
_steps: ContextVar[list[int]] = ContextVar("microbudget.json_schema")


def check_schema(name: str, schema: Any) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, an object's.

    Raises `ValueError` for a malformed keyword, for a `$ref` that leads nowhere or elsewhere, and
    for a keyword that is not checked because `jsonschema` is missing.
    """
    try:
        return core.check_schema(name, schema)
    except ValueError as error:
        found = core.check_schema(name, schema, strict=False)  # or this says what is malformed
        try:
            import jsonschema
            from referencing.exceptions import Unresolvable
        except ImportError:
            text = f"{error}; the others need: pip install 'microbudget[jsonschema]'"
            raise ValueError(text) from None
    kind = jsonschema.Draft202012Validator
    try:
        kind.check_schema(found, format_checker=kind.FORMAT_CHECKER)
        _check_references(found)
    except jsonschema.SchemaError as error:
        text = f"{name}{error.json_path[1:]} must be as JSON Schema has it: {_short(error)}"
        raise ValueError(text) from error
    except (RecursionError, TypeError, Unresolvable) as error:
        text = f"{name} must be a schema whose $refs lead to places in it: {_short(error)}"
        raise ValueError(text) from error
    return found


def complaint_about(schema: Any, value: Any) -> str | None:
    """Return the fault of a JSON value in one sentence, or `None` if it fits the schema.

    `check_schema` has accepted the schema. What takes too many steps to check does not fit.
    """
    if _is_of_the_core(schema):
        return core.complaint_about(schema, value)
    from jsonschema.exceptions import best_match
    from referencing import Registry  # an empty one: no $ref is looked for elsewhere

    token = _steps.set([_MAX_STEPS])
    try:
        error = best_match(_validator()(schema, registry=Registry()).iter_errors(value))
    except RecursionError:
        return "arguments must be simpler: this is too deep or too long to check"
    finally:
        _steps.reset(token)
    return None if error is None else f"arguments{error.json_path[1:]} must fit: {_short(error)}"


def _is_of_the_core(schema: Any) -> bool:
    try:
        core.check_schema("schema", schema)
    except ValueError:
        return False
    return True


@cache
def _validator() -> Any:
    """Return the library's class of validators, whose steps are counted."""
    from jsonschema import Draft202012Validator as Kind
    from jsonschema.validators import extend

    counted: Any = extend
    return counted(Kind, {word: _counted(check) for word, check in Kind.VALIDATORS.items()})


def _counted(check: Any) -> Any:
    def step(*given: Any) -> Iterator[Any]:
        steps = _steps.get()
        steps[0] -= 1
        if steps[0] < 0:
            raise RecursionError
        yield from check(*given) or ()

    return step


def _check_references(schema: Any) -> None:
    """Raise `Unresolvable` or `TypeError` for a `$ref` that leads to no schema in this one."""
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).resolver()
    parts = [schema]
    for part in parts:  # it grows meanwhile
        if isinstance(part, list):
            parts.extend(part)
        elif isinstance(part, dict):
            parts.extend(value for word, value in part.items() if word not in _DATA)
            for word in ("$ref", "$dynamicRef"):
                place = part.get(word)
                if not isinstance(place, str):
                    continue  # a property of that name
                if not isinstance(resolver.lookup(place).contents, (dict, bool)):
                    raise TypeError(f"{place} leads to no schema")


def _short(error: Exception) -> str:
    text = " ".join(str(getattr(error, "message", error)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
