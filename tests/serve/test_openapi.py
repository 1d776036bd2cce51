"""The description of the service is one that other programs can go by."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from budget_core.ledger.checks import check_axis, check_key, check_path
from budget_cpython.serve.operations import SERVED
from budget_cpython.web.keys import KeyFile
from tests.serve.support import (
    DOCUMENT,
    LIFE,
    Client,
    Service,
    is_described,
    make_client,
    valid,
)
from tests_micro.support import raises


@pytest.fixture
def ask() -> Client:
    return make_client(("org", "tokens", 100, "day"), ("org", "nano_usd", 10**9, "day"))


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
        if route.path.strip("/") not in ("", "microbudget")  # type: ignore[attr-defined]
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    described = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert routes == described | {("/openapi.json", "get")}
    ids = [one["operationId"] for item in DOCUMENT["paths"].values() for one in item.values()]
    of_all = [f"{name}_of_all" for name, one in SERVED.items() if one.also_on_all]
    assert sorted(ids) == sorted([*SERVED, *of_all, "batch", "liveness", "readiness"])


def test_all_schemas_are_schemas_and_all_references_lead_somewhere() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in references(DOCUMENT):
        node = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_patterns_accept_what_the_ledger_accepts() -> None:
    fields = DOCUMENT["paths"]["/v1/reserve/{path}"]["post"]
    body = DOCUMENT["components"]["schemas"]["ReserveRequest"]["properties"]
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
    assert len(json.dumps(DOCUMENT)) < 60_000
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_method_that_is_not_there_is_told_all_that_are(ask: Client, method: str) -> None:
    answer = ask(method, "/v1/limits/org")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT"}


@pytest.mark.parametrize(
    ("amounts", "reserved", "charged"),
    [
        ({"usd": "0.05"}, True, True),
        ({"usd": 0.05}, True, True),
        ({"usd": None}, True, False),
        ({"tokens": None}, True, False),
        ({"usd": ""}, False, False),
        ({"usd": "-1"}, False, False),
        ({"usd": 1e-10}, False, False),
        ({"usd": 1, "nano_usd": 1}, False, False),
    ],
)
def test_amounts_are_described_as_they_are_taken(
    ask: Client, amounts: dict[str, Any], reserved: bool, charged: bool
) -> None:
    for name, taken in (("reserve", reserved), ("charge", charged)):
        body = {"amounts": amounts}
        operation = DOCUMENT["paths"][f"/v1/{name}/{{path}}"]["post"]
        assert is_described(operation, f"/v1/{name}/org", body) is taken
        assert (ask("POST", f"/v1/{name}/org", body).status_code in (200, 429)) is taken


@pytest.mark.parametrize(
    ("limit", "taken"),
    [
        ({"axis": "usd", "cap": "5.00"}, True),
        ({"axis": "usd", "cap": 5}, True),
        ({"axis": "usd", "cap": ""}, False),
        ({"axis": "tokens", "cap": "5"}, False),
        ({"axis": "tokens", "cap": 5, "window": "week@5 sunday Europe/Berlin"}, True),
        ({"axis": "tokens", "cap": 5, "window": "rolling 86400/24"}, True),
        ({"axis": "tokens", "cap": 5, "window": "rolling 3601/60"}, False),
        ({"axis": "tokens", "cap": 5, "window": "day@24"}, False),
        ({"axis": "tokens", "cap": 5, "window": "fortnight"}, False),
        ({"axis": "tokens", "cap": 5, "window": "day Europe/Nowhere"}, False),
    ],
)
def test_limits_are_described_as_they_are_taken(
    ask: Client, limit: dict[str, Any], taken: bool
) -> None:
    operation = DOCUMENT["paths"]["/v1/limits/{path}"]["put"]
    assert is_described(operation, "/v1/limits/org", {"limits": [limit]}) is taken
    assert (ask("PUT", "/v1/limits/org", {"limits": [limit]}).status_code == 200) is taken


@pytest.mark.slow
def test_schemathesis_finds_nothing() -> None:
    """Examples made of the description, valid and not, are answered as it says."""
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as service:
        url = f"{service.url}/openapi.json"
        options = ("--seed", "1", "--max-examples", "30", "--workers", "1", "--no-color")
        phases = ("--phases", "examples,coverage,fuzzing")
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", url, *options, *phases],
            capture_output=True,
            text=True,
            timeout=LIFE,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
