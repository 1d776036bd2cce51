"""The description of the service is one that other programs can go by."""

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from budget_core.ledger.limit import check_axis, check_key, check_path
from budget_cpython.serve import KeyFile
from budget_cpython.serve.operations import OPERATIONS
from tests.serve.support import DOCUMENT, make_client, valid
from tests_micro.support import raises


def references(node: Any) -> set[str]:
    """Return all that is referred to."""
    if isinstance(node, dict):
        found = {node["$ref"]} if "$ref" in node else set()
        return found.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def test_the_description_is_served_and_is_the_one_that_the_tests_hold_it_to() -> None:
    answer = make_client()("GET", "/openapi.json")
    assert answer.json() == DOCUMENT


def test_a_service_without_keys_asks_for_none(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    assert make_client()("GET", "/openapi.json").json()["security"] == []
    assert make_client(keys=keys)("GET", "/openapi.json").json()["security"] == [{"key": []}]


def test_every_route_is_described_and_nothing_else() -> None:
    routes = {
        (re.sub(":path", "", route.path), method.lower())  # type: ignore[attr-defined]
        for route in make_client().app.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    described = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert routes == described | {("/openapi.json", "get")}
    ids = [one["operationId"] for item in DOCUMENT["paths"].values() for one in item.values()]
    assert sorted(ids) == sorted([*OPERATIONS, "liveness", "readiness"])


def test_all_schemas_are_schemas_and_all_references_lead_somewhere() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in references(DOCUMENT):
        node = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_patterns_accept_what_the_ledger_accepts() -> None:
    fields = DOCUMENT["paths"]["/v1/reserve/{path}"]["post"]
    body = fields["requestBody"]["content"]["application/json"]["schema"]["properties"]
    path = fields["parameters"][0]["schema"]
    axis = body["amounts"]["propertyNames"]
    texts = ["", "a", "a/b", "a//b", "a/", "/a", ".", "..", "...", "a/..", "..a", "a..", "a/.b/c"]
    texts += ["a b", "é", "a#", "#a", "#", "a" * 64, "a" * 65, "/".join("a" * 8), "/".join("a" * 9)]
    texts += [
        "a/" + "b" * 65,
        "a" * 200,
        "a" * 201,
        "\n",
        "!",
        "~",
        "a@b+c=d",
        "a_b-c",
        "\x7f",
    ]
    for text in texts:
        for schema, check in ((path, check_path), (axis, check_axis), (body["key"], check_key)):
            accepted = valid(schema, text)
            if accepted:
                assert check(text) == text
            else:
                raises(ValueError, check, text)


def test_the_description_is_json_with_no_more_than_a_client_needs() -> None:
    assert len(json.dumps(DOCUMENT)) < 40_000
    assert DOCUMENT["openapi"].startswith("3.1")
