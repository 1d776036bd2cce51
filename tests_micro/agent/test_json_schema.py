"""What a tool's schema accepts, and what the model is told where it does not."""

from budget_core.agent.json_schema import check_schema, complaint_about
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NESTED: "dict[str, Any]" = {"type": "array", "items": {"type": "array", "items": {"minimum": 2}}}
CLOSED: "dict[str, Any]" = {"properties": {"a": {}}, "additionalProperties": False}

# the schema of the value, the value, and the complaint after "v"
VECTORS: "list[tuple[Any, Any, str | None]]" = [
    ({}, None, None),
    ({}, {"a": [1]}, None),
    (True, 5, None),
    (False, 5, " must not be given"),
    ({"type": "string"}, "", None),
    ({"type": "string"}, 5, " must be a string, not 5"),
    ({"type": "string"}, None, " must be a string, not null"),
    ({"type": "string"}, True, " must be a string, not true"),
    ({"type": "integer"}, 3, None),
    ({"type": "integer"}, 3.0, None),
    ({"type": "integer"}, 3.5, " must be an integer, not 3.5"),
    ({"type": "integer"}, True, " must be an integer, not true"),
    ({"type": "integer"}, "3", ' must be an integer, not "3"'),
    ({"type": "integer"}, 10**30, None),
    ({"type": "number"}, 3, None),
    ({"type": "number"}, 3.5, None),
    ({"type": "number"}, False, " must be a number, not false"),
    ({"type": "boolean"}, False, None),
    ({"type": "boolean"}, 0, " must be a boolean, not 0"),
    ({"type": "null"}, None, None),
    ({"type": "null"}, 0, " must be null, not 0"),
    ({"type": "array"}, [], None),
    ({"type": "array"}, {}, " must be an array, not {...}"),
    ({"type": "object"}, {}, None),
    ({"type": "object"}, [1, "a", None], " must be an object, not [...]"),
    ({"type": ["string", "null"]}, None, None),
    ({"type": ["string", "null"]}, 5, " must be a string or null, not 5"),
    ({"type": ["integer", "string"]}, 1.5, " must be an integer or a string, not 1.5"),
    ({"type": "null"}, 1 << 70, " must be null, not 1180591620717411303424"),
    ({"type": "null"}, 'a"\\\n', ' must be null, not "a\\"\\\\\\n"'),
    ({"type": "null"}, "x" * 80, ' must be null, not "' + "x" * 57 + '..."'),
    ({"type": "null"}, {"b": 1, "a": 2}, " must be null, not {...}"),
    ({"type": "null"}, [[[[1]]]], " must be null, not [...]"),
    ({"enum": ["r", "w"]}, "r", None),
    ({"enum": ["r", "w"]}, "x", ' must be one of "r", "w", not "x"'),
    ({"enum": [1]}, 1.0, None),
    ({"enum": [1]}, True, " must be one of 1, not true"),
    ({"enum": [False]}, 0, " must be one of false, not 0"),
    ({"enum": [[1, {"a": 0}]]}, [1, {"a": 0.0}], None),
    ({"enum": [[1]]}, [True], " must be one of [...], not [...]"),
    ({"enum": [{"a": 0}]}, {"a": False}, " must be one of {...}, not {...}"),
    ({"enum": [[1]]}, [1, 2], " must be one of [...], not [...]"),
    ({"minimum": 2}, 2, None),
    ({"minimum": 2}, 1, " must be at least 2, not 1"),
    ({"minimum": 2}, "a", None),
    ({"minimum": 2}, False, None),
    ({"maximum": 2}, 2.0, None),
    ({"maximum": 2}, 2.5, " must be at most 2, not 2.5"),
    ({"exclusiveMinimum": 2}, 2, " must be above 2, not 2"),
    ({"exclusiveMinimum": 2}, 3, None),
    ({"exclusiveMaximum": 2}, 2, " must be below 2, not 2"),
    ({"exclusiveMaximum": 2}, 1, None),
    ({"minLength": 2}, "a", ' must be at least 2 long, not "a"'),
    ({"minLength": 2}, "\u00e9\u00e9", None),
    ({"maxLength": 1}, "\u00e9", None),
    ({"maxLength": 1}, "ab", ' must be at most 1 long, not "ab"'),
    ({"maxLength": 1}, [1, 2], None),
    ({"minItems": 1}, [], " must be at least 1 long, not [...]"),
    ({"maxItems": 1}, [1], None),
    ({"maxItems": 1}, [1, 2], " must be at most 1 long, not [...]"),
    ({"items": {"type": "null"}}, [None, 1], "[1] must be null, not 1"),
    ({"items": {"type": "null"}}, {"a": 1}, None),
    (NESTED, [[2], [3, 1]], "[1][1] must be at least 2, not 1"),
    ({"required": ["a"]}, {}, ' must have "a"'),
    ({"required": ["a"]}, {"a": None}, None),
    ({"required": ["a"]}, 5, None),
    ({"properties": {"a": {"type": "null"}}}, {"a": 1}, ".a must be null, not 1"),
    ({"properties": {"a": {"type": "null"}}}, {"b": 1}, None),
    (CLOSED, {"a": 1}, None),
    (CLOSED, {"a": 1, "b": 1}, ".b must not be given"),
    (CLOSED, {"b\n": 1}, ".b\\n must not be given"),
    ({"additionalProperties": {"type": "null"}}, {"b": 1}, ".b must be null, not 1"),
]


def wrapped(schema: "Any") -> "dict[str, Any]":
    return {"type": "object", "properties": {"v": schema}}


def test_every_vector_is_judged_as_it_says() -> None:
    for schema, value, expected in VECTORS:
        root = check_schema("tool", wrapped(schema))
        complaint = complaint_about(root, {"v": value})
        assert complaint == (expected and "arguments.v" + expected), (schema, value, complaint)


def test_a_value_of_any_depth_is_judged() -> None:
    value: Any = 1
    for _ in range(2000):
        value = [value]
    assert complaint_about({}, value) is None
    for root in ({"type": "null"}, {"enum": [value]}):
        assert complaint_about(root, value) != ""


def test_a_schema_that_is_wrong_is_refused_by_name() -> None:
    deep: Any = {}
    for _ in range(40):
        deep = {"items": deep}
    wrong: list[Any] = [{"type": "text"}, {"type": []}, {"type": None}, {"type": ["string", 5]}]
    wrong += [{"properties": []}, {"properties": {"a": 5}}, {"required": "a"}, {"required": [1]}]
    wrong += [{"enum": "ab"}, {"items": []}, {"minimum": "1"}, {"maxLength": None}, deep, 5, None]
    wrong += [{"additionalProperties": None}]
    for schema in wrong:
        error = raises(ValueError, check_schema, "tool", wrapped(schema))
        assert str(error).startswith("tool"), (schema, str(error))
        assert " must be " in str(error), (schema, str(error))
    wholes: list[Any] = [None, [], "object", {"type": "string"}, {"type": ["object"]}]
    for whole in wholes:
        assert "tool must be" in str(raises(ValueError, check_schema, "tool", whole)), whole


def test_the_refusal_names_the_place() -> None:
    error = raises(ValueError, check_schema, "tool", wrapped({"type": "text"}))
    assert "tool.properties.v.type must be" in str(error), str(error)


def test_what_is_not_checked_is_refused_and_what_describes_is_not() -> None:
    for keyword in ("pattern", "anyOf", "$ref", "const", "multipleOf", "maximun", "x-own"):
        error = raises(ValueError, check_schema, "tool", wrapped({keyword: 1}))
        text = "tool.properties.v." + keyword + " must be one of the keywords that are checked"
        assert str(error).startswith(text), str(error)
    noted = {"title": 5, "description": "", "default": 1, "format": None, "$schema": "x"}
    for schema in ({}, {"type": "object"}, noted):
        assert check_schema("tool", schema) is schema
