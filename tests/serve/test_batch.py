"""A batch does each of its operations as a request of its own would, in the order of each root."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import Limit, SqliteLedger
from budget_cpython.ledger.http_batches import MOST
from budget_cpython.web.keys import KeyFile
from tests.serve.support import NOON, Client, make_client

DAILY = ("org", "tokens", 100, "day")
Row = dict[str, Any]


@pytest.fixture
def ask() -> Client:
    return make_client(DAILY, ("lab", "tokens", 10, "day"))


def batch(ask: Client, rows: Any, key: str | None = None) -> list[tuple[int, Any]]:
    """Return the status and the answer of each operation."""
    answer = ask("POST", "/v1/batch", {"operations": rows}, key)
    assert answer.status_code == 200, answer.text
    return [(one["status"], one["answer"]) for one in answer.json()["answers"]]


def reserve(path: str, tokens: int, key: str, **more: Any) -> Row:
    return {"operation": "reserve", "path": path, "amounts": {"tokens": tokens}, "key": key, **more}


def test_each_operation_of_a_batch_is_done_and_answered_in_its_place(ask: Client) -> None:
    answers = batch(
        ask,
        [
            reserve("org/a", 60, "k1", ttl=60),
            reserve("lab", 4, "k2"),
            {"operation": "commit", "path": "org/a", "id": "k1", "actual": {"tokens": 20}},
            {"operation": "extend", "path": "lab", "id": "k2", "ttl": 900},
            {"operation": "renew", "path": "lab", "id": "k2", "key": "k3", "amounts": {"usd": 0}},
            {"operation": "hold", "path": "lab", "id": "k3"},
            {"operation": "release", "path": "lab", "id": "k3"},
            {"operation": "charge", "path": "org", "amounts": {"tokens": 5}, "key": "c"},
        ],
    )
    assert [status for status, _ in answers] == [200] * 8
    said = [answer for _, answer in answers]
    assert said[0]["expires_at"] == NOON + 60
    assert [one["id"] for one in said] == ["k1", "k2", "k1", "k2", "k3", "k3", "k3", "c"]
    states = ["held", "held", "committed", "held", "held", "held", "released", "committed"]
    assert [one["state"] for one in said] == states
    assert ask.ledger.balance("org")[0].spent == 25


def test_an_operation_is_answered_as_in_a_request_of_its_own() -> None:
    asked: list[tuple[str, Row]] = [
        ("reserve", {"amounts": {"tokens": 101}, "key": "k"}),
        ("reserve", {"amounts": {"tokens": 5}, "key": "k"}),
        ("reserve", {"amounts": {"tokens": 5}, "key": "k"}),
        ("reserve", {"amounts": {"tokens": 6}, "key": "k"}),
        ("reserve", {"amounts": {"tokens": 1.5}, "key": "l"}),
        ("reserve", {"amount": {}}),
        ("reserve", {}),
        ("commit", {"id": "unknown"}),
        ("commit", {"id": "k", "actual": {"tokens": 5.0}}),
        ("release", {"id": "k"}),
        ("charge", {"amounts": {"tokens": 5}, "key": "#"}),
    ]
    single, many = make_client(DAILY), make_client(DAILY)
    alone = [single("POST", f"/v1/{name}/org", body) for name, body in asked]
    together = batch(many, [{"operation": name, "path": "org", **body} for name, body in asked])
    said = [(one.status_code, one.json()) for one in alone]
    assert [status for status, _ in said] == [429, 200, 200, 409, 422, 422, 422, 404, 200, 200, 422]
    for (status, answer), (expected, words) in zip(together, said, strict=True):
        assert (status, answer) == (expected, words)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({}, "operation must be one of reserve, charge"),
        ({"operation": ["reserve"], "path": "org"}, "operation must be one of"),
        ({"operation": "expire"}, "not 'expire'"),
        ({"operation": "set_limits", "path": "org", "limits": []}, "not 'set_limits'"),
        ({"operation": "release", "id": "k"}, "path must be"),
        ({"operation": "release", "path": "a//b", "id": "k"}, "path must be"),
        ({"operation": "release", "path": ["org"], "id": "k"}, "path must be"),
        ({"operation": "release", "path": "org"}, "the field 'id' is missing"),
        (
            reserve("org", 1, "k", wait=5),
            "send `wait` in a request of its own",
        ),
    ],
)
def test_a_malformed_operation_is_refused_on_its_own(ask: Client, row: Any, says: str) -> None:
    answers = batch(ask, [reserve("org", 1, "before"), row, reserve("org", 1, "after")])
    assert [status for status, _ in answers] == [200, 422, 200]
    assert answers[1][1]["error"] == "invalid"
    assert says in answers[1][1]["message"]


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ("{}", 422, 'a batch must be like {"operations": ['),
        ('{"operations": {}}', 422, "must be like"),
        ('{"operations": [], "more": 1}', 422, "must be like"),
        ("[]", 422, "must be like"),
        ("{", 400, "not JSON"),
        ("", 400, "not JSON"),
        ('{"operations": [nan]}', 400, "not JSON"),
        ('{"operations": [{}]} {}', 400, "not JSON"),
        ('{"operations": [NaN], "more": 1}', 422, "must be like"),
        ('{"operations": ' + str([0] * 1000)[:-1] + ", NaN]}", 422, "at most 1000 operations"),
        ("[" * 100_000, 422, "must be like"),
        ('{"operations": [' + "[" * 100_000, 400, "nested too deeply"),
        ('{"operations": [], "operations": []}', 400, "its name once"),
        ('{"operations": [ 1 ], "operations": [ 1 ]}', 400, "its name once"),
        ('{"operations": [{}], "operation\\u0073": [{}]}', 400, "its name once"),
    ],
)
def test_a_body_that_is_no_batch_is_refused(ask: Client, sent: str, status: int, says: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = ask("POST", "/v1/batch", content=sent.encode(), headers=headers)
    assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("5", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"path": "org", "path": "lab"}', "an object has a name twice"),
        ('{"path": "' + "x" * 20_000 + '"}', "at most 17408 bytes"),
        ('{"operation": "release", "path": "org", "id": "\\ud800"}', "id must be that of a hold"),
        ('{"operation": "release", "path": "\\udc00", "id": "k"}', "path must be"),
        ('{"operation": "extend", "path": "org", "id": "k", "ttl": NaN}', "ttl must be"),
    ],
)
def test_an_operation_that_no_request_could_have_is_refused_on_its_own(
    ask: Client, row: str, says: str
) -> None:
    """White space between operations, and in them, is of no account."""
    good = json.dumps(reserve("org", 1, "k"), indent=1)
    sent = f' {{ "operations" :\n[ {good} ,\t{row} , {good}\r\n] }} '
    headers = {"Content-Type": "application/json"}
    answer = ask("POST", "/v1/batch", {"operations": []}, content=sent.encode(), headers=headers)
    assert answer.status_code == 200, answer.text
    first, refused, last = answer.json()["answers"]
    assert (first["status"], refused["status"], last["status"]) == (200, 422, 200)
    assert says in refused["answer"]["message"]


def test_a_batch_has_no_key_of_its_own(ask: Client) -> None:
    row, header = reserve("org", 1, "k"), {"Idempotency-Key": "k"}
    answer = ask("POST", "/v1/batch", {"operations": [row]}, headers=header)
    assert (answer.status_code, "its own key" in answer.json()["message"]) == (422, True)
    assert ask.ledger.balance("org")[0].held == 0


def test_a_batch_has_at_most_a_thousand_operations_and_a_mebibyte(ask: Client) -> None:
    row = {"operation": "hold", "path": "org", "id": "k" * 200}
    assert [status for status, _ in batch(ask, [row] * MOST)] == [404] * MOST
    answer = ask("POST", "/v1/batch", {"operations": [row] * (MOST + 1)})
    assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
    assert "at most 1000 operations, not 1001" in answer.json()["message"]
    assert batch(ask, []) == []
    answer = ask("POST", "/v1/batch", {"operations": ["x" * (1 << 20)]})
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert ask("GET", "/v1/batch").status_code == 405


def test_each_operation_needs_its_own_right(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    client = make_client(DAILY, ("lab", "tokens", 10, "day"), keys=keys)
    token = keys.add("team", "org/team", ["reserve"])
    client.ledger.charge("org", {"tokens": 90})
    answers = batch(
        client,
        [
            reserve("org/team", 5, "k"),
            reserve("org/team", 50, "l"),
            reserve("org", 1, "k"),
            reserve("lab", 1, "k"),
            {"operation": "charge", "path": "org/team", "amounts": {"tokens": 1}},
            {"operation": "hold", "path": "org/team", "id": "k"},
            {"operation": "release", "path": "org/team", "id": "k"},
        ],
        token,
    )
    assert [status for status, _ in answers] == [200, 429, 403, 403, 403, 403, 200]
    assert (answers[1][1]["limit"], answers[1][1]["spent"]) == (5, 0)


@pytest.mark.parametrize("key", [None, "mb.a.wrong"])
def test_nothing_of_a_batch_is_read_before_its_key_is_known(
    tmp_path: Path, key: str | None
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.add("a", "*", ["read"])
    client, sent = make_client(keys=keys), []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"1000000")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    scope = {"type": "http", "method": "POST", "path": "/v1/batch", "headers": headers}
    asyncio.run(client.app({**scope, "query_string": b"", "root_path": ""}, receive, send))
    assert sent[0]["status"] == 401
    assert (b"connection", b"close") in sent[0]["headers"]


def test_operations_on_one_root_are_done_in_their_order_and_others_beside_them() -> None:
    """The first operation on `slow` waits until one on another root is done."""
    memory = make_client(DAILY, ("slow", "tokens", 10, "day")).ledger
    other_is_done = asyncio.Event()
    done: list[str] = []

    class Awaited:
        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
            return getattr(memory, name)  # type: ignore[no-any-return]

        async def reserve(self, path: str, amounts: Any, key: str, ttl: float) -> Any:
            if key == "first":
                await other_is_done.wait()
            held = memory.reserve(path, amounts, key, ttl)
            done.append(key)
            if key == "other":
                other_is_done.set()
            return held

    rows = [
        reserve("slow/a", 6, "first"),
        reserve("slow/b", 6, "second"),
        reserve("org", 1, "other"),
    ]
    assert [status for status, _ in batch(Client(Awaited()), rows)] == [200, 429, 200]
    assert done == ["other", "first"]


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_ledger_that_keeps_the_order_gets_a_batch_together(
    tmp_path: Path, with_keys: bool
) -> None:
    together: list[int] = []

    class Counting(SqliteLedger):
        def do_together(self, operations: Any) -> list[Any]:
            together.append(len(operations))
            return super().do_together(operations)

    keys = KeyFile(tmp_path / "keys.json") if with_keys else None
    token = keys.add("a", "*", ["reserve"]) if keys else None
    with Counting(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10)])
        rows: list[Row] = [{}] * 2
        for number in range(10):
            rows.append(reserve("org/a", 6, f"k{number}"))
            done = {"path": "org/a", "id": f"k{number}", "actual": {"tokens": 0}}
            rows.append({"operation": "commit", **done})
        answers = batch(Client(ledger, keys), rows, token)
    assert [status for status, _ in answers] == [422, 422, *[200, 200] * 10]
    assert [len(rows) - 2] == together
    assert {answer["state"] for _, answer in answers[3::2]} == {"committed"}


def test_others_have_their_turn_after_each_25_operations(ask: Client) -> None:
    async def turns(operations: int) -> int:
        rows = [{"operation": "hold", "path": "org", "id": "k"}] * operations
        asked = asyncio.create_task(ask.ask("POST", "/v1/batch", {"operations": rows}))
        count = 0
        while not asked.done():
            await asyncio.sleep(0)
            count += 1
        return count

    few, many = (asyncio.run(turns(operations)) for operations in (25, 1000))
    assert many - few >= 39


def test_an_operation_that_fails_leaves_the_others_as_they_are(ask: Client) -> None:
    class Breaking:
        def __getattr__(self, name: str) -> Any:
            return getattr(ask.ledger, name)

        def reserve(self, path: str, amounts: Any, *more: Any) -> Any:
            if path == "lab":
                raise RuntimeError("password=hunter2")
            return ask.ledger.reserve(path, amounts, *more)

    answers = batch(Client(Breaking()), [reserve("lab", 1, "k"), reserve("org", 1, "k")])
    assert [status for status, _ in answers] == [500, 200]
    assert "hunter2" not in json.dumps(answers[0][1])
