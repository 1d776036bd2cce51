"""Devices report their own day with their requests; the service lists them with what is left."""

import json
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.web import devices
from budget_cpython.web.keys import KeyFile
from tests.serve.support import MIDNIGHT, NOON, Client, make_client

REPORT = {"spent": 1200, "cap": 50_000, "resets_at": MIDNIGHT}
ROWS = (("boards", "tokens", 10_000, "day"), ("boards/small", "tokens", 900, "day"))


def report(client: Client, path: str, said: Any = REPORT, key: str | None = None) -> int:
    """Reserve a token, and report with it; return the status."""
    header = said if isinstance(said, str) else json.dumps(said)
    body = {"amounts": {"tokens": 1}}
    headers = {"Microbudget-Device": header}
    return client("POST", f"/v1/reserve/{path}", body, key, headers=headers).status_code


def listed(client: Client, key: str | None = None, after: str = "") -> Any:
    """Return what the service lists."""
    return client("GET", f"/v1/devices?after={after}", key=key).json()


def test_a_device_is_listed_with_its_report_and_what_its_account_has_left() -> None:
    client = make_client(*ROWS)
    assert report(client, "boards/small") == 200
    client.clock.advance(10)
    assert report(client, "boards/other", {"spent": 7}) == 200
    assert listed(client) == {
        "devices": [
            {
                "account": "boards/other",
                "seen_at": NOON + 10,
                "spent": 7,
                "cap": None,
                "resets_at": 0,
                "left": {"tokens": 9_998},
            },
            {"account": "boards/small", "seen_at": NOON, **REPORT, "left": {"tokens": 899}},
        ],
        "next": None,
    }


def test_a_report_replaces_the_one_before_and_the_same_one_is_noted_once_a_minute() -> None:
    client = make_client(*ROWS)
    for seconds, spent, seen in ((0, 5, 0), (59, 5, 0), (1, 5, 60), (1, 4, 61)):
        client.clock.advance(seconds)
        report(client, "boards/small", {"spent": spent})
        (device,) = listed(client)["devices"]
        assert (device["spent"], device["seen_at"] - NOON) == (spent, seen)


def test_a_refused_reservation_is_a_contact_and_one_on_no_account_is_none() -> None:
    client = make_client(("boards", "tokens", 0, "day"))
    assert report(client, "boards/a") == 429
    assert report(client, "unknown/a") == 404
    assert [one["account"] for one in listed(client)["devices"]] == ["boards/a"]


@pytest.mark.parametrize(
    "said",
    ["", "1200", "[]", "{}", '{"cap": 5}', '{"spent": -1}', '{"spent": "1"}', '{"spent": 1.5}']
    + ['{"spent": 1, "more": 2}', "[" * 9_000],
)
def test_a_malformed_report_is_refused_and_reserves_nothing(said: str) -> None:
    client = make_client(*ROWS)
    assert report(client, "boards/small", said) == 422
    assert client.ledger.balance("boards")[0].held == 0
    assert listed(client)["devices"] == []


def test_a_key_sees_its_own_devices_and_reports_only_with_the_right_to_reserve(
    tmp_path: Path,
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    client = make_client(*ROWS, keys=keys)
    device = keys.add("small", "boards/small", ["reserve", "read"])
    reader = keys.add("reader", "boards", ["read"])
    other = keys.add("other", "boards/other", ["reserve", "read"])
    assert report(client, "boards/small", key=device) == 200
    headers = {"Microbudget-Device": json.dumps(REPORT)}
    assert client("GET", "/v1/balance/boards/b", key=reader, headers=headers).status_code == 200
    for key, seen in ((device, ["boards/small"]), (reader, ["boards/small"]), (other, [])):
        assert [one["account"] for one in listed(client, key)["devices"]] == seen
    assert client("GET", "/v1/devices").status_code == 401


def test_reports_are_kept_by_the_ledger_and_are_no_accounts_of_its_list() -> None:
    client = make_client(*ROWS)
    report(client, "boards/small")
    again = Client(client.ledger, clock=client.clock)
    assert [one["account"] for one in listed(again)["devices"]] == ["boards/small"]
    assert again("GET", "/v1/accounts").json()["accounts"] == ["boards", "boards/small"]
    client.ledger.set_limits("boards/small", [])
    client.ledger.set_limits("boards", [])
    assert listed(again)["devices"][0]["left"] == {}


def test_devices_come_in_pages_and_not_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MOST", 103)
    client = make_client(*ROWS)
    for number in range(105):
        assert report(client, f"boards/b{number:03}") == 200
    first = listed(client)
    assert (len(first["devices"]), first["next"]) == (100, "boards/b099")
    second = listed(client, after=first["next"])
    assert [one["account"] for one in second["devices"]] == [
        f"boards/b{n}" for n in (100, 101, 102)
    ]
    assert second["next"] is None


def test_a_device_that_is_removed_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MOST", 2)
    client = make_client(*ROWS)
    for name in "abc":
        assert report(client, f"boards/{name}") == 200
    assert client("PUT", "/v1/limits/_devices/boards/a", {"limits": []}).status_code == 200
    client.clock.advance(60)
    assert report(client, "boards/c") == 200
    assert [one["account"] for one in listed(client)["devices"]] == ["boards/b", "boards/c"]


def test_a_device_that_is_removed_while_they_are_listed_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = make_client(*ROWS)
    for name in "ab":
        assert report(client, f"boards/{name}") == 200

    async def before_a_removal(self: Any) -> list[str]:
        return ["boards/a", "boards/b", "boards/gone"]

    monkeypatch.setattr(devices.DeviceReports, "paths", before_a_removal)
    assert [one["account"] for one in listed(client)["devices"]] == ["boards/a", "boards/b"]


def test_a_report_that_cannot_be_kept_refuses_no_call() -> None:
    client = make_client(*ROWS)
    deep = "boards/" + "/".join("abcdefg")
    assert report(client, deep) == 200
    assert listed(client)["devices"] == []
