"""What a tool's schema accepts with `jsonschema`, and what the model is told where it does not."""

import asyncio
import sys
from typing import Any

import pytest

from budget_cpython import Tool
from budget_cpython.agent.json_schema import check_schema, complaint_about
from tests_micro.agent.test_json_schema import wrapped
from tests_micro.script import calls, play, says

TREE: "dict[str, Any]" = {
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
            },
            "required": ["name"],
        }
    },
    "$ref": "#/$defs/Tree",
}
LOOP: "dict[str, Any]" = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
ESCAPED: "dict[str, Any]" = {
    "$defs": {"a/b~c": {"type": "string"}},
    "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}},
}
PAIR: "dict[str, Any]" = {"prefixItems": [{"type": "string"}, {"type": "null"}], "items": False}
EITHER: "dict[str, Any]" = {"oneOf": [{"minimum": 5}, {"type": "integer"}, {"type": "null"}]}
NODES: "dict[str, Any]" = {
    "anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]
}

# the schema of the value, the value, and part of the complaint
VECTORS: list[tuple[Any, Any, str | None]] = [
    ({"const": None}, None, None),
    ({"const": None}, 0, "arguments.v must fit: "),
    ({"const": 1}, True, "arguments.v must fit: "),
    ({"const": {}}, [], "arguments.v must fit: "),
    (PAIR, ["a"], None),
    (PAIR, ["a", 1], "arguments.v[1] must fit: "),
    (PAIR, ["a", None, 1], "arguments.v must fit: "),
    ({"additionalProperties": False, "patternProperties": {"a": {}}}, {"a": 1}, None),
    (NODES, {"a": "b"}, None),
    (NODES, {"a": 1}, "arguments.v.a must fit: "),
    (NODES, 5, "arguments.v must fit: "),
    (EITHER, None, "arguments.v must fit: "),
    (EITHER, 1, None),
    (EITHER, 7, "arguments.v must fit: "),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, None),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, "arguments.v must fit: "),
    ({"minimum": 5, "anyOf": [{"type": "null"}, {}]}, 4, "arguments.v must fit: "),
    ({"pattern": "^a"}, "b", "arguments.v must fit: 'b' does not match '^a'"),
    ({"pattern": "^a"}, "ab", None),
    ({"multipleOf": 3}, 4, "arguments.v must fit: 4 is not a multiple of 3"),
    ({"uniqueItems": True}, [1, 1], "arguments.v must fit"),
    ({"not": {"type": "null"}}, None, "arguments.v must fit"),
    ({"format": "date"}, "no date", None),
    ({"$ref": "#"}, {"v": {}}, None),
    ({"type": "string"}, 5, "arguments.v must be a string, not 5"),
]


@pytest.mark.parametrize(("schema", "value", "expected"), VECTORS)
def test_every_vector_is_judged_as_it_says(schema: Any, value: Any, expected: str | None) -> None:
    complaint = complaint_about(check_schema("tool", wrapped(schema)), {"v": value})
    assert (complaint or "")[: len(expected or "!")] == (expected or "")


def test_a_schema_that_leads_to_itself_judges_every_level() -> None:
    root = check_schema("tool", TREE)
    value: Any = 5
    for _ in range(6):
        value = {"name": "a", "left": value}
    assert complaint_about(root, {"name": "a", "left": {"name": "b", "left": None}}) is None
    assert "must fit" in str(complaint_about(root, value))
    assert complaint_about(root, {"left": None}) == (
        "arguments must fit: 'name' is a required property"
    )


def test_a_ref_with_escapes_is_followed() -> None:
    root = check_schema("tool", ESCAPED)
    assert complaint_about(root, {"x": 1}) == "arguments.x must fit: 1 is not of type 'string'"


def test_what_never_ends_is_a_complaint() -> None:
    doubling: dict[str, Any] = {"$defs": {"a30": {}}, "$ref": "#/$defs/a0"}
    for level in range(30):
        next_one = {"$ref": f"#/$defs/a{level + 1}"}
        doubling["$defs"][f"a{level}"] = {"allOf": [next_one, next_one]}
    for root in (LOOP, {"$ref": "#"}, doubling):
        text = complaint_about(check_schema("tool", root), {})
        assert "too deep or too long" in str(text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"anyOf": []}, r"tool\.properties\.v\.anyOf must be as JSON Schema has it"),
        ({"allOf": [5]}, r"tool\.properties\.v\.allOf\[0\] must be as JSON Schema has it"),
        ({"pattern": "("}, r"tool\.properties\.v\.pattern must be as JSON Schema has it"),
        ({"type": "text", "not": {}}, r"tool\.properties\.v\.type must be array, boolean"),
        ({"$ref": "http://a/b"}, "tool must be a schema whose \\$refs lead to places in it"),
        ({"$ref": "#/nowhere"}, "tool must be a schema whose \\$refs lead to places in it"),
        ({"$ref": "#/type"}, "tool must be a schema whose \\$refs lead to places in it"),
        ({"$ref": 5}, r"tool\.properties\.v\['\$ref'\] must be as JSON Schema has it"),
    ],
)
def test_a_schema_that_is_wrong_is_refused_by_name(schema: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_schema("tool", wrapped(schema))


def test_without_the_library_what_it_would_check_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    schema = wrapped({"pattern": "^a"})
    text = r"parameters of f\.properties\.v\.pattern must be one of .* 'microbudget\[jsonschema\]'"
    with pytest.raises(ValueError, match=text):
        Tool("f", "F.", print, schema)
    assert Tool("f", "F.", print, wrapped({"type": "string"})).parameters
    with pytest.raises(ValueError, match=r"v\.type must be array") as caught:
        Tool("f", "F.", print, wrapped({"type": "text", "pattern": "^a"}))
    assert "pip" not in str(caught.value)


def test_arguments_that_the_library_refuses_never_reach_the_function() -> None:
    made: list[str] = []
    schema = {"type": "object", "properties": {"word": {"pattern": "^a"}}}
    tool = Tool("note", "Notes a word.", lambda word: made.append(word), schema)
    wrong, right = (calls(("note", {"word": word})) for word in ("b", "ab"))
    played = asyncio.run(play(wrong, right, says("Done."), tools=[tool]))
    assert (played.statuses, made) == (["invalid", "completed"], ["ab"])
    assert "arguments.word must fit: 'b' does not match '^a'" in played.told[0]
