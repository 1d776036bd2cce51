"""A request's field of the wrong kind is refused in words that name it and say what it must be."""

from typing import Any

import pytest

from budget_cpython.serve.messages import NoFields
from budget_cpython.serve.operations import SERVED
from budget_cpython.serve.reading import read
from tests.serve.support import Client, make_client
from tests_micro.support import raises

GOOD: dict[str, Any] = {
    "amounts": {"tokens": 1},
    "id": "k",
    "limits": [{"axis": "tokens", "cap": 1}],
    "events": [{"kind": "told"}],
    "rows": [{"hour": 3600, "amounts": {}}],
}
KINDS: tuple[Any, ...] = (5, 1.5, "x", True, None, [], {}, [5], [{}], [[]], {"a": []})
WITH_BODY = [
    (name, row.method, row.request)
    for name, row in SERVED.items()
    if row.method != "GET" and row.request is not NoFields
]


@pytest.fixture
def ask() -> Client:
    return make_client(("org", "tokens", 100, "day"))


@pytest.mark.parametrize(("name", "method", "kind"), WITH_BODY)
def test_a_field_of_the_wrong_kind_is_named_with_what_it_must_be(
    ask: Client, name: str, method: str, kind: Any
) -> None:
    noun = SERVED[name].noun
    fields = kind.__struct_fields__
    good = {field: GOOD[field] for field in fields if field in GOOD}
    refused = 0
    for field in fields:
        for value in KINDS:
            answer = ask(method, f"/v1/{noun}/org", {**good, field: value})
            if answer.status_code != 422:
                continue
            refused += 1
            said = answer.json()["message"]
            assert "Expected" not in said, (field, value)
            assert "must be" in said, (field, value, said)
            within = ("axis", "cap", "hour", "kind", "the amount")  # of what a ledger reads
            assert said.startswith((field, *within)), (field, value, said)
    assert refused >= len(fields)


@pytest.mark.parametrize(
    ("url", "body", "says"),
    [
        ("limits", {"limits": 5}, 'limits must be a list of objects like {"axis": "tokens"'),
        ("limits", {"limits": [{"axis": "a", "cap": 1}, {"axis": "b"}]}, "limits[1] must be an"),
        ("limits", {"limits": [{"axis": "a", "cap": 1, "x": 1}]}, "not {'axis': 'a', 'cap': 1,"),
        ("limits", {"limits": [{"axis": "usd", "cap": "-1"}]}, "cap of usd must be"),
        ("limits", {"limits": [], "after": ""}, "unknown field 'after': the known ones are limits"),
        ("limits", {}, "the field 'limits' is missing"),
    ],
)
def test_a_limit_of_the_wrong_kind_is_named_by_its_place(
    ask: Client, url: str, body: Any, says: str
) -> None:
    answer = ask("PUT", f"/v1/{url}/org", body)
    assert (answer.status_code, says in answer.json()["message"]) == (422, True), answer.text


def test_the_field_that_is_wrong_is_named_and_no_other(ask: Client) -> None:
    body = {"amounts": {"tokens": None}, "key": None, "ttl": "5"}
    answer = ask("POST", "/v1/reserve/org", body)
    assert answer.json()["message"].startswith("ttl must be seconds above 0")


def test_fields_of_the_right_kind_are_read_with_their_defaults() -> None:
    asked: Any = read(SERVED["reserve"].request, {"amounts": {"tokens": 5}, "key": None})
    assert (asked.amounts, asked.key, asked.ttl, asked.wait) == ({"tokens": 5}, None, None, None)
    raises(ValueError, read, SERVED["reserve"].request, {"amounts": {}, "ttl": True})
