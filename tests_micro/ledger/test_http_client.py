"""What a ledger's client sends, and what it makes of answers, lost ones among them."""

import json

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.limit import Limit
from tests_micro.support import raises, raises_async
from tests_micro.wire import DEEP, Wire, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

URL = "http://host:81/budgets"
KEY = "mb.pico.Secret-0123456789"
HOLD = {
    "path": "org/a",
    "id": "k",
    "amounts": {"tokens": 5},
    "state": "held",
    "expires_at": 1_800_000_000,
    "actual": None,
}
BALANCE = {
    "account": "org",
    "axis": "tokens",
    "window": "day",
    "limit": 100,
    "spent": 1,
    "held": 5,
    "left": 94,
    "debt": 0,
    "begins_at": 0,
    "resets_at": 86_400,
}
EXCEEDED = {
    "scope": "org",
    "axis": "tokens",
    "window": "day",
    "asked": 5,
    "limit": 4,
    "spent": 1,
    "held": 2,
    "resets_at": 86_400,
}
RESET = OSError(104, "reset")


def ok(said: "Any") -> bytes:
    return answer(json.dumps(said).encode())


def no(status: int, word: "Any", **more: "Any") -> bytes:
    said = dict({"error": word, "message": "Words."}, **more)
    return answer(json.dumps(said).encode(), f"{status} No")


class Wires:
    """Connections, one for each request that is made; `asked` has what each was sent."""

    def __init__(self, *wires: "Any") -> None:
        self.wires = [Wire(*(wire if isinstance(wire, tuple) else (wire,))) for wire in wires]
        self.left = list(self.wires)
        self.ledger = HttpLedger(URL, KEY)
        exchange = self.ledger._exchange

        async def exchanged(*args: "Any") -> "Any":
            return await self.left.pop(0).connected(exchange, *args)

        self.ledger._exchange = exchanged  # type: ignore[method-assign, assignment]

    @property
    def asked(self) -> "list[tuple[str, Any]]":
        """The first line, and the body, of each request."""
        found: list[tuple[str, Any]] = []
        for wire in self.wires:
            head, _, body = wire.sent.partition(b"\r\n\r\n")
            line = head.decode().split("\r\n")[0]
            found.append((line, json.loads(body.decode()) if body else None))
        return found


async def refused(error: "Any", *wires: "Any") -> "Any":
    """Return the error that a reservation comes to."""
    return await raises_async(error, Wires(*wires).ledger.reserve, "org/a", {"tokens": 5})


async def test_a_reservation_is_sent_with_a_key_and_comes_back_as_a_hold() -> None:
    wires = Wires(ok(HOLD))
    hold = await wires.ledger.reserve("org/a", {"tokens": 5}, "k", 60)
    fields = {"amounts": {"tokens": 5}, "key": "k", "ttl": 60}
    assert wires.asked == [("POST /budgets/v1/reserve/org/a HTTP/1.1", fields)]
    assert (hold.path, hold.id, hold.state, hold.actual) == ("org/a", "k", Hold.HELD, None)
    assert (hold.amounts, hold.expires_at) == ({"tokens": 5}, 1_800_000_000)


async def test_a_request_says_what_it_carries_and_whose_it_is() -> None:
    wires = Wires(ok(HOLD))
    await wires.ledger.reserve("org/a", {"tokens": 5})
    lines = wires.wires[0].sent.decode().split("\r\n")
    assert "Authorization: Bearer " + KEY in lines
    assert "Content-Type: application/json" in lines


async def test_each_reservation_without_a_key_is_given_one_of_its_own() -> None:
    wires = Wires(ok(HOLD), ok(HOLD))
    for _ in range(2):
        await wires.ledger.reserve("org/a", {"tokens": 5})
    keys = [body["key"] for _, body in wires.asked]
    assert len(keys[0]) == len(keys[1]) == 32
    assert keys[0] != keys[1]


async def test_a_lost_answer_is_asked_for_once_more_with_the_same_key() -> None:
    for lost in (RESET, ok(HOLD)[:-3], b"", no(502, "what")):
        wires = Wires(lost, ok(HOLD))
        assert (await wires.ledger.reserve("org/a", {"tokens": 5})).id == "k"
        assert wires.asked[0] == wires.asked[1], lost


async def test_a_renewal_is_sent_with_a_key_and_once_more_where_its_answer_was_lost() -> None:
    wires = Wires(RESET, ok(HOLD))
    held = Hold("org/a", "before")
    assert (await wires.ledger.renew(held, {"tokens": 3}, {"tokens": 5}, ttl=60)).id == "k"
    (line, body), again = wires.asked
    assert (line, body) == again
    assert line == "POST /budgets/v1/renew/org/a HTTP/1.1"
    assert len(body.pop("key")) == 32
    assert body == {"id": "before", "actual": {"tokens": 3}, "amounts": {"tokens": 5}, "ttl": 60}


async def test_what_stays_in_doubt_is_said_to_be() -> None:
    for first in (RESET, no(502, "what"), no(503, "ledger_unavailable", applied=None)):
        for second in (RESET, no(503, "ledger_unavailable", applied=False)):
            assert (await refused(LedgerUnavailableError, first, second)).applied is None


async def test_what_was_never_sent_is_not_tried_again_and_not_in_doubt() -> None:
    class Nobody(Wire):
        async def open_connection(self, host: str, port: int, **options: "Any") -> "Any":
            raise OSError(111, "refused")

    wires = Wires(b"")
    wires.left = [Nobody()]
    error = await raises_async(LedgerUnavailableError, wires.ledger.charge, "org", {})
    assert error.applied is False
    assert not wires.left


async def test_what_the_ledger_behind_it_refused_is_raised_as_if_it_were_here() -> None:
    error = await refused(BudgetExceededError, no(429, "budget_exceeded", **EXCEEDED))
    assert {name: getattr(error, name) for name in EXCEEDED} == EXCEEDED
    error = await refused(UnknownAccountError, no(404, "unknown_account", path="org/a"))
    assert error.path == "org/a"
    error = await refused(UnknownHoldError, no(404, "unknown_hold", path="org/a", id="k"))
    assert (error.path, error.id) == ("org/a", "k")
    error = await refused(HoldSettledError, no(409, "hold_settled", id="k", state="expired"))
    assert (error.id, error.state) == ("k", "expired")
    error = await refused(KeyReusedError, no(409, "key_reused", path="org/a", key="k"))
    assert (error.path, error.key) == ("org/a", "k")
    await refused(LedgerFullError, no(507, "ledger_full"))
    assert str(await refused(ValueError, no(422, "invalid"))) == "Words."
    error = await refused(LedgerUnavailableError, no(503, "ledger_unavailable", applied=False))
    assert error.applied is False


async def test_a_key_that_is_refused_is_no_outage() -> None:
    for status, word in ((401, "unauthorized"), (403, "forbidden"), (404, "not_found")):
        error = await refused(LedgerError, no(status, word))
        assert not isinstance(error, LedgerUnavailableError)
        assert str(status) in str(error)


async def test_an_answer_of_another_server_is_an_outage() -> None:
    strange: list[Any] = [{}, [], "x", None, dict(HOLD, state="what"), dict(HOLD, expires_at=-1)]
    strange += [dict(HOLD, amounts={"tokens": -5}), dict(HOLD, amounts=[]), dict(HOLD, path="")]
    strange += [dict(HOLD, actual=5), dict(HOLD, id=5), dict(HOLD, expires_at=True)]
    raw = [ok(one) for one in strange]
    raw += [answer(b"<html>"), answer(b"\xff"), answer(b""), answer(DEEP.encode())]
    raw += [b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(HOLD).encode()]  # it may have been cut short
    for one in raw:
        wires = Wires(one, one)
        await raises_async(LedgerUnavailableError, wires.ledger.release, Hold("org/a", "k"))


async def test_an_error_in_a_gateways_own_words_is_an_outage() -> None:
    for word in ({"code": 502, "message": "Bad gateway"}, ["bad"], 502, None, True):
        raw = no(502, word)
        assert "502" in str(await refused(LedgerUnavailableError, raw, raw)), word


async def test_a_malformed_refusal_is_reported_by_its_status() -> None:
    for said in ({}, {"scope": 5}, dict(EXCEEDED, spent=None), dict(EXCEEDED, resets_at=-1)):
        raw = no(429, "budget_exceeded", **said)
        assert (await refused(LedgerUnavailableError, raw, raw)).applied is None
    error = await refused(LedgerError, no(400, "bad_request", message=["x"]))
    assert "400" in str(error)


async def test_a_redirection_is_not_followed() -> None:
    wires = Wires(answer(b"", "307 Elsewhere", "Location: http://other/"))
    await raises_async(LedgerError, wires.ledger.balance, "org")
    assert not wires.left


async def test_settling_names_the_hold_by_its_path_and_id() -> None:
    settled = dict(HOLD, state="committed", actual={"tokens": 3})
    wires = Wires(ok(settled), ok(HOLD), ok(HOLD), ok(HOLD))
    held = Hold("org/a", "k")
    assert (await wires.ledger.commit(held, {"tokens": 3})).actual == {"tokens": 3}
    await wires.ledger.release(held)
    await wires.ledger.extend(held, 7)
    await wires.ledger.hold("org/a", "a/b?c#d%&=+")
    assert wires.asked == [
        ("POST /budgets/v1/commit/org/a HTTP/1.1", {"id": "k", "actual": {"tokens": 3}}),
        ("POST /budgets/v1/release/org/a HTTP/1.1", {"id": "k"}),
        ("POST /budgets/v1/extend/org/a HTTP/1.1", {"id": "k", "ttl": 7}),
        ("GET /budgets/v1/hold/org/a?id=a%2Fb%3Fc%23d%25%26%3D%2B HTTP/1.1", None),
    ]


async def test_limits_go_there_and_come_back() -> None:
    rows = [{"axis": "tokens", "cap": None, "window": "day"}]
    wires = Wires(ok({"limits": rows}), ok({"limits": rows}))
    await wires.ledger.set_limits("org", [Limit("tokens", None, "day")])
    assert await wires.ledger.limits("org") == [Limit("tokens", None, "day")]
    assert wires.asked[0] == ("PUT /budgets/v1/limits/org HTTP/1.1", {"limits": rows})


async def test_limits_that_something_else_took_are_not_set() -> None:
    for raw in (answer(b"<html>"), ok({}), ok({"limits": [5]})):
        await raises_async(LedgerUnavailableError, Wires(raw, raw).ledger.set_limits, "org", [])


async def test_balances_and_history_are_read_row_by_row() -> None:
    wires = Wires(ok({"balances": [BALANCE]}), ok({"balances": []}))
    (row,) = await wires.ledger.balance("org")
    names = [name for name in BALANCE if name not in ("left", "debt")]
    assert {name: getattr(row, name) for name in names} == {name: BALANCE[name] for name in names}
    assert row.left == 94
    assert await wires.ledger.history("org") == []


async def test_sums_of_any_size_are_read() -> None:
    large = dict(BALANCE, spent=1 << 70, held=1 << 61)
    (row,) = await Wires(ok({"balances": [large]})).ledger.balance("org")
    assert (row.spent, row.held, row.left) == (1 << 70, 1 << 61, 0)


async def test_accounts_come_page_by_page_until_there_are_no_more() -> None:
    wires = Wires(ok({"accounts": ["a", "b"], "next": "b"}), ok({"accounts": ["c"], "next": None}))
    assert await wires.ledger.accounts() == ["a", "b", "c"]
    assert [line.split(" ")[1][-2:] for line, _ in wires.asked] == ["r=", "=b"]


async def test_a_list_of_accounts_that_goes_round_in_circles_comes_to_an_end() -> None:
    page = ok({"accounts": ["a"], "next": "a"})
    assert await Wires(page, page).ledger.accounts() == ["a", "a"]


async def test_expire_says_how_many_there_were() -> None:
    wires = Wires(ok({"expired": 3}))
    assert await wires.ledger.expire() == 3
    assert wires.asked == [("POST /budgets/v1/expire HTTP/1.1", None)]


async def test_what_no_ledger_takes_is_refused_before_it_is_sent() -> None:
    ledger = HttpLedger(URL)
    for path, amounts, key, ttl in (
        ("org//a", {}, None, 1),
        ("org/a?b", {}, None, 1),
        ("org", {"tokens": -1}, None, 1),
        ("org", {"tokens": 1.5}, None, 1),
        ("org", {}, "a b", 1),
        ("org", {}, "#a", 1),
        ("org", {}, None, 0),
    ):
        await raises_async(ValueError, ledger.reserve, path, amounts, key, ttl)
    await raises_async(ValueError, ledger.set_limits, "org", ["tokens"])


def test_what_a_client_is_made_with_is_checked() -> None:
    for options in ({"key": "a b"}, {"key": "a\r\nX: y"}, {"timeout_s": 0}):
        raises(ValueError, HttpLedger, URL, **options)
    for options in ({"timeout_s": 86_401}, {"max_response_bytes": 0}):
        raises(ValueError, HttpLedger, URL, **options)
    for url in ("host", "http://host/?a", "http://me:x@host/"):
        raises(ValueError, HttpLedger, url)


async def test_the_key_is_in_no_repr_and_no_error() -> None:
    assert KEY not in repr(HttpLedger(URL, KEY))
    for wire in (RESET, no(401, "unauthorized"), b"HTTP/1.1 x"):
        assert KEY not in str(await refused(LedgerError, wire, wire))


async def test_a_report_has_no_number_that_the_service_refuses() -> None:
    wires = Wires(ok(HOLD))
    wires.ledger.report(1 << 60, (1 << 60) - 1, 86_400)
    await wires.ledger.reserve("org/a", {"tokens": 5})
    most = (1 << 53) - 1
    (line,) = [line for line in wires.wires[0].sent.split(b"\r\n") if b"-Device: " in line]
    assert json.loads(line.partition(b": ")[2].decode()) == {
        "spent": most,
        "cap": most,
        "resets_at": 86_400,
    }


async def test_the_newest_report_of_a_device_is_sent_with_each_request() -> None:
    wires = Wires(ok(HOLD), ok(HOLD), ok(HOLD))
    await wires.ledger.reserve("org/a", {"tokens": 5})
    for spent, cap, end in ((1, 9, 86_400), (2, None, 0)):
        wires.ledger.report(spent, cap, end)
        await wires.ledger.reserve("org/a", {"tokens": 5})
    name = b"Microbudget-Device: "
    before, first, second = [
        [line for line in wire.sent.split(b"\r\n") if line.startswith(name)] for wire in wires.wires
    ]
    assert before == []
    assert json.loads(first[0][len(name) :].decode()) == {"spent": 1, "cap": 9, "resets_at": 86_400}
    assert json.loads(second[0][len(name) :].decode()) == {"spent": 2, "resets_at": 0}
    assert len(first) == len(second) == 1
