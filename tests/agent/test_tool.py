"""Tools that are made of functions."""

import asyncio
import inspect
import json
import typing
from typing import Annotated, Any, Literal, Optional

import pytest

from budget_cpython import (
    Budget,
    ChatClient,
    DeadlineToken,
    Envelope,
    Operative,
    Tool,
    tool,
)
from scripted_model import ScriptedEndpoint


@tool
def search(query: str, limit: int = 5, deep: bool = False) -> list[str]:
    """Find notes by
    their words.

    The best come first.

    Args:
        query: words to look for,
            each of them
        limit (int): the most that come back
    """
    return [query] * limit


def test_a_functions_name_words_and_hints_become_a_tools() -> None:
    assert isinstance(search, Tool)
    assert search.definition() == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Find notes by their words.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "words to look for, each of them"},
                    "limit": {
                        "type": "integer",
                        "description": "the most that come back",
                        "default": 5,
                    },
                    "deep": {"type": "boolean", "default": False},
                },
                "additionalProperties": False,
                "required": ["query"],
            },
        },
    }


def test_it_is_called_like_the_function() -> None:
    found: list[str] = search("tomato", limit=2)
    assert found == ["tomato", "tomato"]
    assert search("tomato") == ["tomato"] * 5
    with pytest.raises(TypeError):
        search(5, most=2)  # type: ignore[call-arg, arg-type] # an editor knows the signature
    assert inspect.signature(search) == inspect.signature(search.function)


def schema_of(hint: Any) -> Any:
    """Return the schema of a parameter with that hint."""

    def take(value: Any) -> None:
        """Take a value."""

    take.__annotations__["value"] = hint
    return tool(take).parameters["properties"]["value"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (Any, {}),
        (object, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": {}}),
        (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
        (int | str | None, {"type": ["integer", "string", "null"]}),
        (Literal["a", "b", 1, None], {"enum": ["a", "b", 1, None]}),
        (Annotated[str, "a word"], {"type": "string", "description": "a word"}),
        (Annotated[str, 5], {"type": "string"}),
        (Annotated[int, {}, "a number"], {"type": "integer", "description": "a number"}),
        (typing.List[int], {"type": "array", "items": {"type": "integer"}}),  # noqa: UP006
        (list[Literal["a"] | None], {"type": "array", "items": {"enum": ["a", None]}}),
        (list[int] | None, {"type": ["array", "null"], "items": {"type": "integer"}}),
        (list[Any] | list[str], {"anyOf": [
            {"type": "array", "items": {}}, {"type": "array", "items": {"type": "string"}},
        ]}),
        (list | list[str], {"anyOf": [
            {"type": "array"}, {"type": "array", "items": {"type": "string"}},
        ]}),
        (Literal["a"] | int, {"anyOf": [{"enum": ["a"]}, {"type": "integer"}]}),
        (str | Any, {"anyOf": [{"type": "string"}, {}]}),
        ("str", {"type": "string"}),
    ],
)  # fmt: skip
def test_a_type_hint_becomes_a_schema(hint: Any, schema: Any) -> None:
    assert schema_of(hint) == schema


class Point:
    """A class of a program's own."""


@pytest.mark.parametrize(
    "hint", [Point, bytes, set[int], tuple[int, ...], dict[int, str], list[Point]]
)
def test_a_hint_that_is_no_json_is_refused_by_name(hint: Any) -> None:
    with pytest.raises(
        ValueError, match=r"parameter value of take has the type hint .* must be str"
    ):
        schema_of(hint)


def test_a_hint_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a type hint of take cannot be resolved: .*Nowhere"):
        schema_of("Nowhere")


def test_what_cannot_be_a_tool_is_refused_by_name() -> None:
    def bare(query) -> str:  # type: ignore[no-untyped-def]
        """Find."""
        return str(query)

    def silent(query: str) -> str:
        return query

    def many(*words: str) -> str:
        """Find."""
        return words[0]

    def first(word: str, /) -> str:
        """Find."""
        return word

    for function, complaint in (
        (bare, "parameter query of bare needs a type hint"),
        (silent, "silent needs a docstring"),
        (many, "parameter words of many must be one that can be given by its name"),
        (first, "parameter word of first must be one that can be given by its name"),
        (5, "a tool is made of a function, not 5"),
    ):
        with pytest.raises(ValueError, match=complaint):
            tool(function)  # type: ignore[arg-type]
    assert tool(description="Find.")(silent).description == "Find."


def test_options_are_those_of_a_tool() -> None:
    @tool(name="look", description="Looks.", cap_s=5, essential=True)
    def find(query: str) -> str:
        return query

    assert (find.name, find.description, find.cap_s, find.essential) == ("look", "Looks.", 5, True)
    with pytest.raises(TypeError, match="most"):
        tool(description="Find.", most=5)(find.function)  # type: ignore[call-overload]


def test_a_functions_own_attributes_are_left_alone() -> None:
    def find(query: str) -> str:
        """Find."""
        return query

    vars(find).update(name="mine", run="mine")
    made = tool(find)
    assert (made.name, made.run) == ("find", find)


def test_a_token_and_a_budget_are_given_by_the_run() -> None:
    @tool
    def find(query: str, token: DeadlineToken, budget: Envelope) -> str:
        """Find."""
        return query

    assert (find.cooperative, find.draws) == (True, True)
    assert list(find.parameters["properties"]) == ["query"]

    @tool
    def other(token: str, budget: int) -> str:
        """Find."""
        return token * budget

    assert (other.cooperative, other.draws) == (False, False)
    assert other.parameters["required"] == ["token", "budget"]


def test_a_token_that_may_be_left_out_is_given_by_the_run_too() -> None:
    @tool
    def find(query: str, token: DeadlineToken | None = None) -> str:
        """Find."""
        return f"{query} {token}"

    assert find.cooperative
    assert list(find.parameters["properties"]) == ["query"]
    assert find("a") == "a None"


def test_a_default_that_is_not_json_is_not_shown() -> None:
    @tool
    def find(near: float = float("inf"), tags: dict[str, Any] = {"a": {1}}) -> str:  # noqa: B006
        """Find."""
        return ""

    shown = json.loads(json.dumps(find.definition(), allow_nan=False))
    assert shown["function"]["parameters"]["properties"] == {
        "near": {"type": "number"},
        "tags": {"type": "object", "additionalProperties": {}},
    }


def test_a_parameter_may_have_any_name() -> None:
    @tool
    def find(self: str, function: str) -> str:
        """Find."""
        return self + function

    assert find(self="a", function="b") == "ab"


def test_a_method_and_an_async_function_become_tools() -> None:
    class Notes:
        def read(self, path: str) -> str:
            """Read a note."""
            return path

    assert tool(Notes().read).parameters["required"] == ["path"]

    @tool
    async def read(path: str) -> str:
        """Read a note."""
        return path

    assert asyncio.run(read("a")) == "a"


def test_an_operative_calls_them_and_the_model_hears_what_is_wrong() -> None:
    files = {"a.md": "# Alpha", "b.md": "# Beta"}

    @tool
    def list_files() -> str:
        """List the files."""
        return "\n".join(files)

    @tool
    async def read_file(path: Literal["a.md"], token: DeadlineToken) -> str:
        """Read a file."""
        assert token.remaining_s() > 0
        return files[path]

    with ScriptedEndpoint() as endpoint:
        client = ChatClient(endpoint.base_url, "scripted")
        operative = Operative(client, [list_files, read_file], Budget(max_turns=8))
        result = operative.run_sync("What do the files say?")
    statuses = [(entry["name"], entry["status"]) for entry in result.tool_results]
    assert statuses[:2] == [("list_files", "completed"), ("read_file", "completed")]
    assert ("read_file", "invalid") in statuses
    assert "Alpha" in result.text
