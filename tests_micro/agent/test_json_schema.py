"""What a tool's schema accepts, and what the model is told where it does not."""

from budget_core.agent.json_schema import check_schema, complaint_about
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
NESTED: "dict[str, Any]" = {"type": "array", "items": {"type": "array", "items": {"minimum": 2}}}
PAIR: "dict[str, Any]" = {"prefixItems": [{"type": "string"}, {"type": "null"}], "items": False}
CLOSED: "dict[str, Any]" = {"properties": {"a": {}}, "additionalProperties": False}
EITHER: "dict[str, Any]" = {"oneOf": [{"minimum": 5}, {"type": "integer"}, {"type": "null"}]}
NODES: "dict[str, Any]" = {
    "anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]
}

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
    ({"const": None}, None, None),
    ({"const": None}, 0, " must be null, not 0"),
    ({"const": 1}, True, " must be 1, not true"),
    ({"const": {}}, [], " must be {...}, not [...]"),
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
    (PAIR, ["a"], None),
    (PAIR, ["a", 1], "[1] must be null, not 1"),
    (PAIR, ["a", None, 1], "[2] must not be given"),
    ({"required": ["a"]}, {}, ' must have "a"'),
    ({"required": ["a"]}, {"a": None}, None),
    ({"required": ["a"]}, 5, None),
    ({"properties": {"a": {"type": "null"}}}, {"a": 1}, ".a must be null, not 1"),
    ({"properties": {"a": {"type": "null"}}}, {"b": 1}, None),
    (CLOSED, {"a": 1}, None),
    (CLOSED, {"a": 1, "b": 1}, ".b must not be given"),
    (CLOSED, {"b\n": 1}, ".b\\n must not be given"),
    ({"additionalProperties": {"type": "null"}}, {"b": 1}, ".b must be null, not 1"),
    ({"additionalProperties": False, "patternProperties": {"a": {}}}, {"a": 1}, None),
    (NODES, {"a": "b"}, None),
    (NODES, {"a": 1}, ".a must be a string, not 1"),
    (NODES, 5, " must be an object or be null, not 5"),
    (EITHER, None, " must be of one kind only, not null"),
    (EITHER, 1, None),
    (EITHER, 7, " must be of one kind only, not 7"),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, None),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, " must be at most 3, not 4"),
    ({"minimum": 5, "anyOf": [{"type": "null"}, {}]}, 4, " must be at least 5, not 4"),
]


def wrapped(schema: "Any") -> "dict[str, Any]":
    return {"type": "object", "properties": {"v": schema}}


def test_every_vector_is_judged_as_it_says() -> None:
    for schema, value, expected in VECTORS:
        root = check_schema("tool", wrapped(schema))
        complaint = complaint_about(root, {"v": value})
        assert complaint == (expected and "arguments.v" + expected), (schema, value, complaint)


def test_a_schema_that_leads_to_itself_judges_every_level() -> None:
    root = check_schema("tool", TREE)
    value: Any = 5
    for _ in range(6):
        value = {"name": "a", "left": value}
    assert complaint_about(root, {"name": "a", "left": {"name": "b", "left": None}}) is None
    text = complaint_about(root, value)
    assert text is not None
    assert "must be" in text
    assert complaint_about(root, {"left": None}) == 'arguments must have "name"'


def test_a_ref_with_escapes_is_followed() -> None:
    root = check_schema("tool", ESCAPED)
    assert complaint_about(root, {"x": 1}) == "arguments.x must be a string, not 1"


def test_what_never_ends_is_a_complaint() -> None:
    doubling: dict[str, Any] = {"$defs": {"a30": {}}, "$ref": "#/$defs/a0"}
    for level in range(30):
        next_one = {"$ref": "#/$defs/a" + str(level + 1)}
        doubling["$defs"]["a" + str(level)] = {"allOf": [next_one, next_one]}
    for root in (LOOP, {"$ref": "#"}, doubling):
        text = complaint_about(check_schema("tool", root), {})
        assert text is not None
        assert "too deep or too long" in text, text


def test_a_value_of_any_depth_is_judged() -> None:
    value: Any = 1
    for _ in range(2000):
        value = [value]
    assert complaint_about({}, value) is None
    items: dict[str, Any] = {"$ref": "#/$defs/l", "$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}}
    for root in (check_schema("tool", items), {"type": "null"}, {"const": value}):
        complaint_about(root, value)


def test_a_schema_that_is_wrong_is_refused_by_name() -> None:
    deep: Any = {}
    for _ in range(40):
        deep = {"items": deep}
    wrong: list[Any] = [{"type": "text"}, {"type": []}, {"type": None}, {"type": ["string", 5]}]
    wrong += [{"properties": []}, {"properties": {"a": 5}}, {"required": "a"}, {"required": [1]}]
    wrong += [{"enum": "ab"}, {"$ref": "http://a/b"}, {"$ref": "#/nowhere"}, {"$ref": 5}, deep]
    wrong += [{"items": []}, {"anyOf": []}, {"anyOf": {}}, {"allOf": [5]}, {"minimum": "1"}]
    wrong += [{"$ref": "#/type"}, {"maxLength": None}, {"additionalProperties": None}, 5, None]
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


def test_a_good_schema_is_returned_and_unknown_keywords_are_ignored() -> None:
    for schema in ({}, {"type": "object"}, TREE, {"title": 5, "x-own": [], "format": None}):
        assert check_schema("tool", schema) is schema
