"""What operators read over HTTP, and who may read and note it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_cpython import Ledger, Limit
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent
from budget_cpython.serve import journal_operations as operations
from budget_cpython.web.keys import KeyFile
from tests.ledger.engines import InLoop
from tests.ledger.patience import NO_HURRY
from tests.serve.support import Client, Service, make_client

HOUR = 490_000 * HOUR_S
ROW = {"hour": HOUR, "model": "small", "amounts": {"calls": 1, "tokens": 20}}
LIMITS = [Limit("tokens", 100), Limit("calls", None, "day")]


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def client(keys: KeyFile) -> Client:
    return make_client(*((path, "tokens", 100, "day") for path in ("a", "a/b", "c")), keys=keys)


def accounts(client: Client, url: str, key: str) -> list[str]:
    return [row["account"] for row in client("GET", url, key=key).json()["balances"]]


def test_a_key_reads_what_it_is_for_where_it_names_no_account(
    client: Client, keys: KeyFile
) -> None:
    every, one = keys.add("every", "*", ["read"]), keys.add("one", "a", ["read"])
    client.ledger.reserve("a/b", {"tokens": 1}, "k")
    client.ledger.reserve("c", {"tokens": 1}, "other")
    assert accounts(client, "/v1/balances", every) == ["a", "a/b", "c"]
    assert accounts(client, "/v1/balances", one) == ["a", "a/b"]
    assert accounts(client, "/v1/balances/a/b", one) == ["a/b"]
    assert client("GET", "/v1/balances/c", key=one).status_code == 403
    held = client("GET", "/v1/holds", key=one).json()["holds"]
    assert [row["id"] for row in held] == ["k"]
    noted = client("GET", "/v1/events?kinds=limits", key=one).json()["events"]
    assert [row["account"] for row in noted] == ["a", "a/b"]
    assert client("GET", "/v1/usage", key=one).json() == {"usage": [], "next": None}


def test_balances_and_usage_come_in_pages(
    client: Client, keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MOST_ROWS", 1)
    key = keys.add("every", "*", ["read"])
    for hour in (HOUR, HOUR + HOUR_S):
        for model in ("small", "large"):
            client.ledger.add_usage([HourOfUsage(hour, "a", model, "", {"calls": 1})])
    found, after = [], ""
    while after is not None:
        said = client("GET", f"/v1/balances?after={after}", key=key).json()
        found.append([row["account"] for row in said["balances"]])
        after = said["next"]
    assert found == [["a"], ["a/b"], ["c"]]
    said = client("GET", "/v1/usage", key=key).json()
    assert [row["model"] for row in said["usage"]] == ["large", "small"]
    said = client("GET", f"/v1/usage?since={said['next']}", key=key).json()
    assert [row["hour"] for row in said["usage"]] == [HOUR + HOUR_S] * 2
    assert said["next"] is None


def test_usage_is_added_by_keys_that_may_reserve_or_charge(client: Client, keys: KeyFile) -> None:
    for right, status in [("reserve", 200), ("charge", 200), ("read", 403), ("limits", 403)]:
        key = keys.add(right, "a", [right])
        assert client("POST", "/v1/usage/a/b", {"rows": [ROW]}, key).status_code == status
        assert client("POST", "/v1/usage/c", {"rows": [ROW]}, key).status_code == 403
    (row,) = client.ledger.usage()
    assert row == HourOfUsage(HOUR, "a/b", "small", "", {"calls": 2, "tokens": 40})


def test_a_refusal_by_an_account_above_a_keys_shows_only_what_was_left(
    client: Client, keys: KeyFile
) -> None:
    below, every = keys.add("below", "a/b", ["read"]), keys.add("every", "*", ["read"])
    client.ledger.set_limits("a/b", [])
    client.ledger.charge("a/other", {"tokens": 93})
    with pytest.raises(BudgetExceededError):
        client.ledger.reserve("a/b", {"tokens": 10})

    def limit(key: str) -> Any:
        (event,) = client("GET", "/v1/events/a/b?kinds=refused", key=key).json()["events"]
        assert (event["details"]["asked"], event["details"]["times"]) == (10, 1)
        return event["details"]["limit"]

    assert {name: limit(every)[name] for name in ("cap", "spent")} == {"cap": 100, "spent": 93}
    shown = {"account": "a", "axis": "tokens", "window": "day", "cap": 7, "spent": 0, "held": 0}
    assert limit(below) == {**shown, "resets_at": limit(every)["resets_at"]}


def test_an_event_with_a_name_takes_a_key_for_every_account(client: Client, keys: KeyFile) -> None:
    every, one = keys.add("every", "*", ["limits"]), keys.add("one", "a", ["limits"])
    plain, named = {"events": [{"kind": "told"}]}, {"events": [{"kind": "told", "name": "once"}]}
    numbers = client("POST", "/v1/events/a", plain, one).json()["numbers"]
    assert client.ledger.events(kinds=["told"])[0].number == numbers[0]
    assert client("POST", "/v1/events/a", named, one).status_code == 403
    assert client("POST", "/v1/events", plain, one).status_code == 403
    assert client("POST", "/v1/events", named, every).json()["numbers"] != [0]
    assert client("POST", "/v1/events/c", named, every).json()["numbers"] == [0]


@pytest.mark.parametrize(
    "rows",
    [None, {}, [1], [{}], [{**ROW, "path": "c"}], [{**ROW, "hour": 1}], [{**ROW, "model": None}]],
)
def test_malformed_usage_is_refused(client: Client, keys: KeyFile, rows: Any) -> None:
    key = keys.add("every", "*", ["charge"])
    assert client("POST", "/v1/usage/a", {"rows": rows}, key).status_code == 422
    assert client.ledger.usage() == []


@pytest.mark.parametrize(
    "row", [1, {}, {"kind": ""}, {"kind": "a", "details": 1}, {"kind": "a", "number": 1}]
)
def test_malformed_events_are_refused(client: Client, keys: KeyFile, row: Any) -> None:
    key = keys.add("every", "*", ["limits"])
    assert client("POST", "/v1/events/a", {"events": [row]}, key).status_code == 422


@pytest.mark.parametrize(
    "query", ["kinds=a,%00", "most=-1", "most=x", "after=", "after=1.5", "most=" + "9" * 99]
)
def test_malformed_queries_are_refused(client: Client, keys: KeyFile, query: str) -> None:
    key = keys.add("every", "*", ["read"])
    assert client("GET", f"/v1/events?{query}", key=key).status_code == 422


def test_limits_are_noted_with_the_key_that_changed_them(client: Client, keys: KeyFile) -> None:
    key = keys.add("ops", "*", ["limits"])
    client("PUT", "/v1/limits/a", {"limits": []}, key)
    (event,) = client.ledger.events("a", ["limits"])[-1:]
    assert (event.account, event.details["by"]) == ("a", "key ops")


def test_keys_that_change_are_noted_once(client: Client, keys: KeyFile) -> None:
    old = keys.add("old", "a", ["read"])
    assert client("GET", "/v1/balances", key=old).status_code == 200
    new = keys.add("new", "*", ["read", "limits"])
    keys.revoke("old")
    other = Client(client.ledger, KeyFile(keys.path))
    for one in (client, client, other):
        assert one("GET", "/v1/balances", key=new).status_code == 200
    found = [(one.account, one.details) for one in client.ledger.events(kinds=["keys"])]
    assert sorted(found, key=lambda one: one[0]) == [
        ("", {"key": "new", "change": "added", "account": "*", "rights": ["read", "limits"]}),
        ("a", {"key": "old", "change": "revoked", "account": "a", "rights": ["read"]}),
    ]


def test_keys_that_change_while_the_ledger_is_out_of_reach_are_noted_later(keys: KeyFile) -> None:
    class Out(Ledger):
        is_out = False
        asked = 0

        def balances(self, path: str = "") -> Any:
            self.asked += 1
            if self.is_out:
                raise LedgerUnavailableError("out")
            return super().balances(path)

        def note(self, events: Any) -> list[int]:
            self.balances()
            return super().note(events)

    ledger = Out()
    client, key = Client(ledger, keys), keys.add("ops", "*", ["read"])
    assert client("GET", "/v1/balances", key=key).status_code == 200
    keys.add("new", "a", ["read"])
    ledger.is_out, ledger.asked = True, 0
    for asked in (2, 3, 4):
        assert client("GET", "/v1/balances", key=key).status_code == 503
        assert ledger.asked == asked
    ledger.is_out = False
    for _ in range(3):
        assert client("GET", "/v1/balances", key=key).status_code == 200
    assert [one.details["key"] for one in ledger.events(kinds=["keys"])] == ["new"]


def test_what_devices_report_is_no_change_of_limits() -> None:
    client = make_client(("org", "tokens", 100, "day"))
    headers = {"Microbudget-Device": '{"spent": 1200}'}
    assert client("GET", "/v1/balance/org", headers=headers).status_code == 200
    assert client.ledger.accounts() == ["_devices/org", "org"]
    assert {one.account for one in client.ledger.events()} == {"org"}
    shown = client("GET", "/v1/balances").json()["balances"]
    assert {row["account"] for row in shown} == {"org"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as one:
        yield one
        assert one.end() == (0, "")


@pytest.mark.parametrize("kind", [HttpLedger, AsyncHttpLedger])
def test_a_client_reads_and_notes_as_on_the_ledger_itself(service: Service, kind: Any) -> None:
    made = kind(service.url, timeout_s=NO_HURRY)
    ledger = made if kind is HttpLedger else InLoop(made)
    memory = Ledger()
    root = kind.__name__
    last = max((one.number for one in ledger.events()), default=0)
    for one in (ledger, memory):
        one.set_limits(root, LIMITS)
        one.set_limits(f"{root}/a", LIMITS)
        one.reserve(f"{root}/a", {"tokens": 5}, "k")
        details = {"long": "x" * 500}
        noted = [LedgerEvent("told", root, {**details, "n": n}, f"{root}/{n}") for n in range(40)]
        numbers = one.note([*noted, LedgerEvent("told", f"{root}/a", {}), noted[0]])
        assert numbers == [*range(numbers[0], numbers[0] + 41), 0]
        rows = [
            HourOfUsage(HOUR + n % 3 * HOUR_S, root, f"model-{n}" * 20, "", {"calls": n})
            for n in range(100)
        ]
        one.add_usage([*rows, HourOfUsage(HOUR, f"{root}/a", "", "search", {"calls": 1})])
    assert repr(ledger.balances(root)) == repr(memory.balances(root))
    assert [one.id for one in ledger.open_holds(root)] == ["k"]
    assert ledger.usage(root, HOUR + HOUR_S) == memory.usage(root, HOUR + HOUR_S)
    assert ledger.usage(root) == memory.usage(root)
    for asked in (
        {"kinds": ["told"]},
        {"kinds": ["told"], "most": 3},
        {"kinds": ["told", "limits"]},
        {"path": f"{root}/a", "kinds": ["told"]},
    ):
        asked = {"path": root, **asked}
        found = [(one.kind, one.account, one.name) for one in ledger.events(**asked)]
        assert found == [(one.kind, one.account, one.name) for one in memory.events(**asked)]
    new = ledger.events(root, (), last, 2)
    assert [one.kind for one in new] == ["limits", "limits"]
    ledger.close()
