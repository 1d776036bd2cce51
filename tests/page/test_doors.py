"""Who gets in, and who may change what."""

from pathlib import Path

import pytest

from budget_cpython.page.doors import SESSION_S
from budget_cpython.web.keys import KeyFile
from tests.page.support import NOON, Document, Visitor, make_ledger, visit
from tests.page.test_views import check_closed, check_structure
from tests_micro.support import FakeClock

CHANGE = {"limits": "$2/day"}


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def guest(keys: KeyFile, clock: FakeClock) -> Visitor:
    keys.add("none", "acme", ["reserve"])
    return visit(make_ledger(clock), keys, clock)


def test_without_a_key_there_is_a_form_and_nothing_else(guest: Visitor) -> None:
    for place in ("", "account/acme", "updates", "?q=acme"):
        answer = guest.get(place)
        assert answer.status_code == 401
        page = Document(answer.text).root
        check_structure(page)
        check_closed(page)
        assert page.all("input", id="key", type="password")
        assert "acme" not in answer.text
        assert not page.all("script")


def test_a_key_that_may_read_gets_a_session_and_its_accounts(guest: Visitor, keys: KeyFile) -> None:
    key = keys.add("ann", "acme/lab", ["read"])
    answer = guest.post("sign-in", key=f" {key} ")
    assert (answer.status_code, answer.headers["location"]) == (303, "/microbudget/")
    cookie = answer.headers["set-cookie"]
    assert key not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/microbudget/", f"Max-Age={SESSION_S}"} <= set(
        cookie.split("; ")
    )
    page = guest.see()
    assert [one.text for one in page.part("accounts").all("table")[0].all("a")] == [
        "acme/lab",
        "ann",
    ]
    assert "key ann" in page.text


@pytest.mark.parametrize("key", ["", "mb.none.x", "mb.nobody.x", "\u00e9" * 1000])
def test_an_unknown_key_is_refused(guest: Visitor, key: str) -> None:
    answer = guest.post("sign-in", key=key)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    check_structure(Document(answer.text).root)


def test_a_key_without_the_right_to_read_is_refused(guest: Visitor, keys: KeyFile) -> None:
    assert guest.post("sign-in", key=keys.add("a", "acme", ["limits"])).status_code == 403


def test_a_session_ends_by_time_by_sign_out_and_with_its_key(
    guest: Visitor, keys: KeyFile, clock: FakeClock
) -> None:
    key = keys.add("ann", "acme", ["read"])
    guest.sign_in(key)
    clock.now += SESSION_S - 1
    wrong = {"token": "another"}
    token = guest.see().all("input", name="token")[0].attributes["value"]
    assert guest.post("sign-out", **wrong).status_code == 403
    clock.now += 1
    assert guest.get().status_code == 401
    guest.sign_in(key)
    token = guest.see().all("input", name="token")[0].attributes["value"]
    assert guest.post("sign-out", token=token).status_code == 303
    assert guest.get().status_code == 401
    guest.sign_in(key)
    keys.revoke("ann")
    assert guest.get().status_code == 401
    keys.add("ann", "acme", ["read"])
    assert guest.get().status_code == 401


def test_a_session_of_another_process_or_with_another_name_is_none(
    guest: Visitor, keys: KeyFile
) -> None:
    guest.sign_in(keys.add("ann", "acme/lab", ["read"]))
    keys.add("root", "*", ["read", "limits"])
    (cookie,) = guest.cookies.jar
    name, ends_at, mark = str(cookie.value).split(".")
    for session in (
        f"root.{ends_at}.{mark}",
        f"{name}.{int(ends_at) + 1}.{mark}",
        f"{name}.{ends_at}.",
        "....",
        name,
    ):
        guest.cookies.clear()
        assert guest.get(Cookie=f"{cookie.name}={session}").status_code == 401
    other = visit(make_ledger(), keys)
    assert other.get(Cookie=f"{cookie.name}={cookie.value}").status_code == 401


def test_a_reader_changes_nothing(guest: Visitor, keys: KeyFile) -> None:
    guest.sign_in(keys.add("ann", "acme", ["read"]))
    page = guest.see("account/acme")
    assert not page.all("input", name="limits")
    token = page.all("input", name="token")[0].attributes["value"]
    answer = guest.post("limits/acme", token=token, apply="yes", stamp="[]", **CHANGE)
    assert answer.status_code == 403
    check_structure(Document(answer.text).root)


def test_a_key_changes_only_its_own_accounts(guest: Visitor, keys: KeyFile) -> None:
    guest.sign_in(keys.add("ann", "acme/lab", ["read", "limits"]))
    token = guest.token("account/acme/lab")
    for path in ("acme", "other", "acme/labs"):
        assert guest.post(f"limits/{path}", token=token, **CHANGE).status_code == 403
    assert guest.post("limits/acme/lab", token=token, **CHANGE).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": "none"},
    ],
)
@pytest.mark.parametrize("with_keys", [False, True])
def test_forms_of_other_pages_are_refused(
    keys: KeyFile, with_keys: bool, headers: dict[str, str]
) -> None:
    guest = visit(make_ledger(), keys if with_keys else None)
    if with_keys:
        guest.sign_in(keys.add("ann", "acme", ["read", "limits"]))
    token = guest.token()
    assert guest.post("limits/acme", headers, token=token, **CHANGE).status_code == 403
    assert guest.post("sign-in", headers, key="x").status_code == 403
    assert guest.post("limits/acme", token="", **CHANGE).status_code == 403
    assert guest.post("limits/acme", **{**CHANGE, "token": "\u00fc"}).status_code == 403


def test_a_browser_that_names_no_site_is_told_by_its_origin() -> None:
    guest = visit(make_ledger())
    token = guest.token()
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.example"}
    body = f"limits=%241%2Fday&token={token}".encode()
    assert guest.ask("POST", "limits/acme", form, body).status_code == 403
    form["Origin"] = "http://localhost"
    assert guest.ask("POST", "limits/acme", form, body).status_code == 200


def test_without_keys_only_this_machine_is_answered() -> None:
    ledger = make_ledger()
    guest = visit(ledger)
    assert guest.get(Host="evil.example").status_code == 403
    assert guest.get(Origin="http://evil.example").status_code == 403
    assert guest.get(**{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert guest.get(Host="127.0.0.1:8321").status_code == 200


def test_keys_that_cannot_be_read_let_nobody_in(guest: Visitor, keys: KeyFile) -> None:
    key = keys.add("ann", "acme", ["read"])
    guest.sign_in(key)
    Path(keys.path).write_text("damaged")
    assert guest.get().status_code == 503
    assert guest.post("sign-in", key=key).status_code == 503


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("application/x-www-form-urlencoded", b"key=%ff", 400),
        ("application/x-www-form-urlencoded", b"key=\xff", 400),
        ("application/x-www-form-urlencoded", b"&".join([b"a=b"] * 30), 400),
        ("application/x-www-form-urlencoded", b"key=" + b"x" * 20_000, 413),
    ],
)
def test_malformed_forms_are_refused(guest: Visitor, kind: str, body: bytes, status: int) -> None:
    answer = guest.ask("POST", "sign-in", {"Content-Type": kind}, body)
    assert answer.status_code == status
