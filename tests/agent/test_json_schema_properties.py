"""Our verdict on arguments, held to that of the `jsonschema` library, draft 2020-12."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from budget_core.agent import json_schema as core
from budget_cpython.agent.json_schema import check_schema, complaint_about
from tests.agent.test_json_schema import ESCAPED, TREE
from tests.properties import examples
from tests_micro.agent.test_json_schema import VECTORS, wrapped

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.sampled_from([None, True, False, 0, 1, 2, 3, 1.0, 2.5, -1, "", "a", "ab", "\u00e9b"]),
    st.integers(-4, 4),
    st.floats(-4, 4),
    st.text(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
BOUNDS = st.integers(-3, 3) | st.sampled_from([0.5, 1.0])
SIZES = st.integers(0, 3)
REFS = st.sampled_from(["#/$defs/one", "#/$defs/two"]).map(lambda ref: {"$ref": ref})


def larger(inner: st.SearchStrategy[Any], whole: bool = True) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "items": inner,
        "enum": st.lists(VALUES, min_size=1, max_size=3),
    }
    if whole:
        keywords["const"] = VALUES
        keywords.update(dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), several))
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        keywords[name] = BOUNDS
    for name in ("minLength", "maxLength", "minItems", "maxItems"):
        keywords[name] = SIZES
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({n: keywords[n] for n in names}))


LEAVES = st.booleans() | TYPES.map(lambda name: {"type": name})
SCHEMAS = st.recursive(LEAVES, larger, max_leaves=6)
OF_THE_CORE = st.recursive(LEAVES, lambda inner: larger(inner, whole=False), max_leaves=6)
REFERRING = st.recursive(LEAVES | REFS, larger, max_leaves=6)


def near(schema: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values that such a schema may well accept, or only just refuse."""
    if isinstance(schema, bool):
        return values
    options = [values, *(st.just(value) for value in schema.get("enum", ()))]
    if "const" in schema:
        options.append(st.just(schema["const"]))
    if "properties" in schema:
        parts = {name: near(part, values) for name, part in schema["properties"].items()}
        options.append(st.fixed_dictionaries({}, optional=parts))
    if "items" in schema:
        options.append(st.lists(near(schema["items"], values), max_size=3))
    for keyword in ("allOf", "anyOf", "oneOf"):
        options += [near(part, values) for part in schema.get(keyword, ())]
    return st.one_of(options)


def agree(root: Any, value: Any) -> None:
    Draft202012Validator.check_schema(root)
    complaint = complaint_about(check_schema("tool", root), value)
    assert (complaint is None) == Draft202012Validator(root).is_valid(value), complaint


@examples(600)
@given(st.data())
def test_the_verdict_is_that_of_the_library(data: st.DataObject) -> None:
    one, two = data.draw(SCHEMAS), data.draw(SCHEMAS)
    schema = data.draw(REFERRING)
    root = {"$defs": {"one": one, "two": two}, **wrapped(schema)}
    agree(root, {"v": data.draw(near(schema, VALUES))})


@examples(600)
@given(st.data())
def test_the_cores_verdict_is_that_of_the_library(data: st.DataObject) -> None:
    schema = data.draw(OF_THE_CORE)
    root, value = wrapped(schema), {"v": data.draw(near(schema, VALUES))}
    complaint = core.complaint_about(core.check_schema("tool", root), value)
    assert (complaint is None) == Draft202012Validator(root).is_valid(value), complaint


@examples(200)
@given(st.recursive(SCALARS, lambda v: st.fixed_dictionaries({}, optional={"name": v, "left": v})))
def test_the_verdict_on_a_tree_is_that_of_the_library(value: Any) -> None:
    agree(TREE, value)
    agree(ESCAPED, {"x": value})


@pytest.mark.parametrize(("schema", "value", "expected"), VECTORS)
def test_the_library_agrees_with_every_vector(schema: Any, value: Any, expected: str) -> None:
    assert Draft202012Validator(wrapped(schema)).is_valid({"v": value}) == (expected is None)
