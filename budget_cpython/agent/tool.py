"""Tools made of functions: name, description and schema are read from them."""

import functools
import inspect
import json
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, Union, overload

from budget_core.agent import envelope as core_envelope
from budget_core.deadline_token import DeadlineToken
from budget_cpython.agent.checked_tool import Tool

P = ParamSpec("P")
R = TypeVar("R")

_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}
_WANTED = "str, int, float, bool, None, list, dict, Literal, Annotated, Any, or a union of these"


class FunctionTool(Tool, Generic[P, R]):
    """A `Tool` that `tool` made of a function; call it like the function itself."""

    def __init__(self, function: Callable[P, R], schema: dict[str, Any], **options: Any) -> None:
        super().__init__(run=function, parameters=schema, **options)
        self.function = function
        functools.update_wrapper(self, function, updated=())  # its attributes are not a tool's

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    cap_s: float | None = None,
    essential: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a `Tool` of a function: `@tool`, or `@tool(cap_s=5)` with options of `Tool`.

    - Its name is the function's, its description the docstring's first paragraph.
    - Its schema comes from the type hints; what has a default is not required. A parameter is
      described by `Annotated[str, "…"]`, or by its line below `Args:` in the docstring.
    - A parameter `token: DeadlineToken` makes it cooperative, and with `budget: Envelope` it draws
      on the run's budget. The model sees neither.

    Raises `ValueError` naming the parameter whose type hint is missing or cannot be a schema, and
    for a function without a docstring where there is no `description`.
    """
    if function is None:
        return lambda function: _made_of(function, **options)
    return _made_of(function, **options)


def _made_of(
    function: Callable[..., Any],
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> FunctionTool[..., Any]:
    if not callable(function):
        raise ValueError(f"a tool is made of a function, not {function!r}")
    if name is None:
        name = str(getattr(function, "__name__", type(function).__name__))
    doc = inspect.getdoc(function) or ""
    description = description or " ".join(doc.partition("\n\n")[0].split())
    if not description:
        raise ValueError(f"{name} needs a docstring, whose first paragraph describes it")
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    required = []
    described = _described(doc)
    for parameter, hint in _parameters(function, name):
        if parameter.name == "token" and _is_a(hint, DeadlineToken):
            options["cooperative"] = True
        elif parameter.name == "budget" and _is_a(hint, core_envelope.Envelope):
            options["draws"] = True
        else:
            part = _schema_of(hint, f"parameter {parameter.name} of {name}")
            if parameter.name in described:
                part.setdefault("description", described[parameter.name])
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            elif _is_json(parameter.default):
                part["default"] = parameter.default
            schema["properties"][parameter.name] = part
    if required:
        schema["required"] = required
    return FunctionTool(function, schema, name=name, description=description, **options)


def _parameters(function: Callable[..., Any], name: str) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield each parameter of a function with its type hint."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ValueError(f"a type hint of {name} cannot be resolved: {error}") from error
    for parameter in inspect.signature(function).parameters.values():
        place = f"parameter {parameter.name} of {name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(f"{place} must be one that can be given by its name")
        if parameter.name not in hints:
            raise ValueError(f"{place} needs a type hint")
        yield parameter, hints[parameter.name]


def _schema_of(hint: Any, place: str) -> dict[str, Any]:
    """Return the JSON schema of a type hint."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return {}
    if isinstance(hint, type) and hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is Annotated:
        texts = [text for text in inner[1:] if isinstance(text, str)]
        schema = _schema_of(inner[0], place)
        return {**schema, "description": texts[0]} if texts else schema
    if origin is Literal and all(type(value) in (str, int, bool, type(None)) for value in inner):
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return _union([_schema_of(one, place) for one in inner])
    if origin is list and inner:
        return {"type": "array", "items": _schema_of(inner[0], place)}
    if origin is dict and inner and inner[0] is str:
        return {"type": "object", "additionalProperties": _schema_of(inner[1], place)}
    shown = hint.__name__ if isinstance(hint, type) and not inner else hint
    raise ValueError(f"{place} has the type hint {shown}; it must be {_WANTED}")


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of values that fit one of some: with a list of types where that says it."""
    literals = [one.get("enum", [None] if one == {"type": "null"} else []) for one in schemas]
    if all(literals) and all(one.keys() <= {"enum", "type"} for one in schemas):
        return {"enum": [value for values in literals for value in values]}
    names = [name for one in schemas for name in one]
    if all(names.count(name) == 1 for name in names if name != "type"):  # each is of one type
        types = [one.get("type") for one in schemas]
        if None not in types and len({*map(str, types)}) == len(types) and "enum" not in names:
            whole = {name: value for one in schemas for name, value in one.items()}
            return {**whole, "type": types}
    return {"anyOf": schemas}


def _is_json(value: object) -> bool:
    """Tell whether a default can be shown to the model."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _is_a(hint: Any, kind: type) -> bool:
    """Tell whether a hint is a class, or that class or `None`."""
    kinds = set(typing.get_args(hint) or (hint,)) - {type(None)}
    return all(isinstance(one, type) and issubclass(one, kind) for one in kinds)


def _described(doc: str) -> dict[str, str]:
    """Return the descriptions below `Args:` by parameter; their further lines are indented."""
    section = re.search(r"^Args:\n((?: +.*\n?|\n)*)", doc, re.MULTILINE)
    found: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(section[1]).splitlines() if section else ():
        entry = re.match(r"(\w+)(?: \(.*?\))?: *(.*)", line)
        if entry:
            name = entry[1]
        if name:
            text = entry[2] if entry else line
            found[name] = f"{found.get(name, '')} {text.strip()}".strip()
    return found
