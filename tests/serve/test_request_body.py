"""A body is read as JSON with each name once, however it is written."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from budget_cpython.serve.app import make_app
from budget_cpython.web.request_body import parse_object
from tests.serve.support import make_client


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"key":"k","amounts":{"tokens":5}}', {"key": "k", "amounts": {"tokens": 5}}),
        ('{ "key" :\t"a b" ,\r\n"ttl": 0.5 }', {"key": "a b", "ttl": 0.5}),
        ('{"ttl": 5.0, "cap": 1e3, "low": -0}', {"ttl": 5, "cap": 1000, "low": 0}),
        ('{"cap": 123456789012345678901234567890}', {"cap": 123456789012345678901234567890}),
        ('{"key": "\\u00e9\\/\\n", "é": null}', {"key": "é/\n", "é": None}),
        ('{"key": "\\ud83d\\ude00", "half": "\\ud83d"}', {"key": "😀", "half": "\ud83d"}),
        ("{}", {}),
    ],
)
def test_what_a_body_says_does_not_depend_on_how_it_is_written(text: str, found: Any) -> None:
    assert parse_object(text.encode()) == found
    assert parse_object(json.dumps(found).encode()) == found
    assert all(
        type(value) is type(found[name]) for name, value in parse_object(text.encode()).items()
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"key": 1, "key": 1}',
        '{"key": 1, "\\u006bey": 2}',
        '{"key": "", "a b": {"k": [{"x": 1, "x": 2}]}}',
        '{"a b": 1, "ab": 2, "a b": 3}',
    ],
)
def test_a_name_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(HTTPException, match="twice"):
        parse_object(text.encode())


@pytest.mark.parametrize("text", ['{"key": "\x01"}', '{"key": "\n"}', '{"key": 01}', "{'key': 1}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(HTTPException, match="not JSON"):
        parse_object(text.encode())


def test_an_app_below_a_path_answers_there_and_nowhere_else() -> None:
    ask = make_client(("org", "tokens", 100, "day"))
    app = Starlette(routes=[Mount("/budgets", make_app(ask.ledger))])

    async def get(url: str) -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(url)

    found = asyncio.run(get("/budgets/v1/balance/org"))
    assert (found.status_code, found.json()["balances"][0]["limit"]) == (200, 100)
    assert asyncio.run(get("/v1/balance/org")).status_code == 404
    assert asyncio.run(get("/budgets/balance/org")).status_code == 404
