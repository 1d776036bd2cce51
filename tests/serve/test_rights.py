"""Who may do what: a key is for its account, what is below it, and its rights."""

from collections.abc import Callable
from pathlib import Path

import pytest

from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.web.keys import RIGHTS, KeyFile
from tests.serve.support import Client, Failing, make_client

REQUESTS: dict[str, tuple[str, str, object]] = {
    "reserve": ("POST", "/v1/reserve/{}", {"amounts": {"tokens": 1}, "key": "k"}),
    "charge": ("POST", "/v1/charge/{}", {"amounts": {"tokens": 1}}),
    "commit": ("POST", "/v1/commit/{}", {"id": "k"}),
    "renew": ("POST", "/v1/renew/{}", {"id": "k", "amounts": {"tokens": 1}}),
    "release": ("POST", "/v1/release/{}", {"id": "k"}),
    "extend": ("POST", "/v1/extend/{}", {"id": "k"}),
    "hold": ("GET", "/v1/hold/{}?id=k", None),
    "balance": ("GET", "/v1/balance/{}", None),
    "history": ("GET", "/v1/history/{}", None),
    "limits": ("GET", "/v1/limits/{}", None),
    "balances": ("GET", "/v1/balances/{}", None),
    "holds": ("GET", "/v1/holds/{}", None),
    "events": ("GET", "/v1/events/{}", None),
    "usage": ("GET", "/v1/usage/{}", None),
    "note": ("POST", "/v1/events/{}", {"events": []}),
    "set_limits": ("PUT", "/v1/limits/{}", {"limits": []}),
}
NEEDS = {
    "reserve": "reserve commit renew release extend",
    "charge": "charge",
    "read": "hold balance history limits balances holds events usage",
    "limits": "set_limits note",
}
Made = tuple[Client, Callable[..., str]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Return a client of `org`, `org/team` and `org/other`, and what makes keys."""
    keys = KeyFile(tmp_path / "keys.json")
    rows = (("org", 1000), ("org/team", 100), ("org/other", 100), ("organ", 100))
    client = make_client(*((path, "tokens", cap, "day") for path, cap in rows), keys=keys)

    def key(account: str, *rights: str) -> str:
        return keys.add(
            f"key{len(keys.keys()) if Path(keys.path).exists() else 0}", account, rights
        )

    return client, key


def ask(client: Client, name: str, path: str, key: str | None) -> int:
    method, url, body = REQUESTS[name]
    return client(method, url.format(path), body, key).status_code


def test_a_request_without_a_known_key_is_refused(made: Made) -> None:
    client, key = made
    right = key("*", *RIGHTS)
    for name in REQUESTS:
        for wrong in (None, "", "x", right[:-1], right + "x"):
            assert ask(client, name, "org/team", wrong) == 401, (name, wrong)
    for header in (f"Basic {right}", right, f"Bearer{right}", "Bearer", "Bearer a b"):
        answer = client("GET", "/v1/accounts", headers={"Authorization": header})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for header in (f"Bearer {right}", f"bearer   {right} "):
        assert client("GET", "/v1/accounts", headers={"Authorization": header}).status_code == 200


def test_a_key_in_the_url_is_no_key(made: Made) -> None:
    client, key = made
    right = key("*", *RIGHTS)
    for query in (f"key={right}", f"access_token={right}", f"token={right}"):
        assert client("GET", f"/v1/balance/org?{query}").status_code == 401


@pytest.mark.parametrize("right", RIGHTS)
def test_a_key_may_do_what_its_rights_say_and_no_more(made: Made, right: str) -> None:
    client, key = made
    client.ledger.reserve("org/team", {"tokens": 1}, "k")
    only, others = key("org", right), key("org", *(one for one in RIGHTS if one != right))
    for needed, names in NEEDS.items():
        for name in names.split():
            given = ask(client, name, "org/team", only)
            withheld = ask(client, name, "org/team", others)
            if needed == right:
                assert given != 403, name
                assert withheld == 403, name
            else:
                assert given == 403, name


def test_a_key_is_for_its_account_and_what_is_below_it(made: Made) -> None:
    client, key = made
    token = key("org/team", *RIGHTS)
    for name in REQUESTS:
        for path in ("org/team", "org/team/a", "org/team/a/b"):
            assert ask(client, name, path, token) != 403, (name, path)
        for path in ("org", "org/other", "organ", "org/teams", "org/tea", "org/team2/a", "unknown"):
            assert ask(client, name, path, token) == 403, (name, path)


def test_a_path_cannot_be_spelt_around_a_key(made: Made) -> None:
    client, key = made
    token = key("org/team", *RIGHTS)
    for path in (
        "org/team/../other",
        "org/team/%2e%2e/other",
        "org/team%2F..%2Fother",
        "org//other",
        "org/team//",
        "org/team/./../other",
        "org/other%00org/team",
        "org/other?path=org/team",
        "ORG/TEAM",
    ):
        answer = client("POST", f"/v1/charge/{path}", {"amounts": {"tokens": 7}}, token)
        assert answer.status_code in (403, 404, 422), path
    assert [row.spent for row in client.ledger.balance("org/other")] == [0, 0]


def test_an_unlimited_axis_above_is_never_used_up_and_tells_nothing(made: Made) -> None:
    client, key = made
    client.ledger.set_limits("org", [Limit("calls", None)])
    greedy, other = key("org/team", *RIGHTS), key("org/other", "reserve", "read")
    for number in range(5):
        body = {"amounts": {"calls": MOST}, "key": f"k{number}"}
        assert client("POST", "/v1/reserve/org/team", body, greedy).status_code == 200
        assert client("POST", "/v1/charge/org/team", body | {"key": "c"}, greedy).status_code == 200
    asked = {"amounts": {"calls": MOST}, "key": "k"}
    assert client("POST", "/v1/reserve/org/other", asked, other).status_code == 200
    seen = client("GET", "/v1/balance/org/other", None, other).json()["balances"]
    (above,) = [row for row in seen if row["axis"] == "calls"]
    assert (above["limit"], above["spent"], above["held"], above["left"]) == (None, 0, 0, None)


def test_a_hold_of_others_cannot_be_settled_below_the_same_root(made: Made) -> None:
    client, key = made
    client.ledger.reserve("org/other", {"tokens": 5}, "theirs")
    token = key("org/team", *RIGHTS)
    for name in ("commit", "release", "extend"):
        method, url, _ = REQUESTS[name]
        answer = client(method, url.format("org/team"), {"id": "theirs"}, token)
        assert answer.json()["error"] == "unknown_hold"
    assert client.ledger.hold("org/other", "theirs").state == "held"


def test_an_idempotency_key_is_of_its_account_alone(made: Made) -> None:
    client, key = made
    for path, used in (("org/team", 1), ("org/other", 2), ("org/team/a", 3)):
        token, body = key(path, "reserve"), {"amounts": {"tokens": used}, "key": "call-17"}
        for _ in range(2):
            held = client("POST", f"/v1/reserve/{path}", body, token).json()
            assert (held["id"], held["amounts"]) == ("call-17", {"tokens": used})
    assert [row.held for row in client.ledger.balance("org/team")] == [6, 4]


def test_a_key_that_is_used_again_for_another_operation_is_refused(made: Made) -> None:
    client, key = made
    token = key("org/team", "reserve")
    for amount, status in ((1, 200), (2, 409)):
        body = {"amounts": {"tokens": amount}, "key": "call-17"}
        answer = client("POST", "/v1/reserve/org/team", body, token)
        assert answer.status_code == status
    said = answer.json()
    assert (said["error"], said["path"], said["key"]) == ("key_reused", "org/team", "call-17")


def test_a_hold_is_settled_by_each_key_of_its_account(made: Made) -> None:
    client, key = made
    team, above = key("org/team", "reserve"), key("org", "reserve", "read")
    for name in ("call-17", "k" * 200):
        body = {"amounts": {"tokens": 1}, "key": name}
        assert client("POST", "/v1/reserve/org/team", body, team).json()["id"] == name
        assert client("GET", f"/v1/hold/org/team?id={name}", key=above).json()["state"] == "held"
        said = client("POST", "/v1/release/org/team", {"id": name}, above).json()
        assert (said["id"], said["state"]) == (name, "released")
        said = client("POST", "/v1/extend/org/team", {"id": name}, team).json()
        assert (said["error"], said["id"]) == ("hold_settled", name)


def test_a_hold_that_a_program_took_from_the_engine_is_settled_over_http(made: Made) -> None:
    client, key = made
    held = [client.ledger.reserve("org/team", {"tokens": 1}, name) for name in ("k", None)]
    token = key("org/team", "reserve")
    for hold in held:
        said = client("POST", "/v1/commit/org/team", {"id": hold.id}, token).json()
        assert (said["id"], said["state"]) == (hold.id, "committed")


def test_of_accounts_above_its_own_a_key_sees_what_is_left_and_no_more(made: Made) -> None:
    client, key = made
    client.ledger.charge("org/other", {"tokens": 900})
    client.ledger.charge("org/team", {"tokens": 10})
    above, own = client("GET", "/v1/balance/org/team", key=key("org/team", "read")).json()[
        "balances"
    ]
    assert (above["limit"], above["spent"], above["held"], above["left"]) == (90, 0, 0, 90)
    assert (own["limit"], own["spent"], own["left"]) == (100, 10, 90)
    whole = client("GET", "/v1/balance/org/team", key=key("org", "read")).json()["balances"][0]
    assert (whole["limit"], whole["spent"]) == (1000, 910)


def test_a_refusal_by_an_account_above_says_what_is_left_and_no_more(made: Made) -> None:
    client, key = made
    client.ledger.charge("org/other", {"tokens": 990})
    body = {"amounts": {"tokens": 50}}
    said = client("POST", "/v1/reserve/org/team", body, key("org/team", "reserve")).json()
    assert (said["scope"], said["asked"], said["left"]) == ("org", 50, 10)
    assert (said["limit"], said["spent"], said["held"]) == (10, 0, 0)
    assert "990" not in said["message"]
    whole = client("POST", "/v1/reserve/org/team", body, key("org", "reserve")).json()
    assert (whole["limit"], whole["spent"]) == (1000, 990)


def test_a_key_lists_its_own_accounts_only(made: Made) -> None:
    client, key = made
    for account, seen in (
        ("org/team", ["org/team"]),
        ("org", ["org", "org/other", "org/team"]),
        ("unknown", []),
        ("*", ["org", "org/other", "org/team", "organ"]),
    ):
        token = key(account, "read")
        assert client("GET", "/v1/accounts", key=token).json()["accounts"] == seen


def test_only_a_key_for_every_account_may_expire_holds(made: Made) -> None:
    client, key = made
    assert client("POST", "/v1/expire", key=key("org", *RIGHTS)).status_code == 403
    assert client("POST", "/v1/expire", key=key("*", "read")).status_code == 403
    assert client("POST", "/v1/expire", key=key("*", "limits")).status_code == 200


def test_a_key_is_gone_as_soon_as_it_is_revoked(made: Made, tmp_path: Path) -> None:
    client, key = made
    token = key("org", "read")
    assert ask(client, "balance", "org", token) == 200
    KeyFile(tmp_path / "keys.json").revoke("key0")
    assert ask(client, "balance", "org", token) == 401


def test_keys_that_cannot_be_read_refuse_every_request(made: Made, tmp_path: Path) -> None:
    client, key = made
    token = key("*", *RIGHTS)
    (tmp_path / "keys.json").write_text("{")
    answer = client("GET", "/v1/balance/org", key=token)
    assert (answer.status_code, answer.json()["error"]) == (503, "keys_unavailable")
    assert str(tmp_path) not in answer.text
    assert client("GET", "/healthz").status_code == 200


def test_a_missing_right_is_refused_before_the_fields_are_checked(made: Made) -> None:
    client, key = made
    assert client("POST", "/v1/reserve/org", {"what": 5}).status_code == 401
    assert (
        client("POST", "/v1/reserve/org", {"what": 5}, key("org/team", "read")).status_code == 403
    )


@pytest.mark.parametrize("kind", [LedgerUnavailableError, LedgerFullError])
def test_a_key_sees_that_the_engine_fails_and_not_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: type[LedgerError]
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    token = keys.add("pico", "org", ["reserve"])
    client = Client(Failing(kind("the ledger '/srv/ledger.db' cannot be used")), keys)
    answer = client("POST", "/v1/reserve/org", {"amounts": {}}, token)
    assert answer.status_code in (503, 507)
    assert "/srv" not in answer.text
    assert "/srv/ledger.db" in caplog.text
    assert {record.name for record in caplog.records} == {"microbudget.serve"}


def test_no_key_is_in_an_answer_or_in_the_log(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    client, key = made
    caplog.set_level(0)
    token = key("org/team", "read")
    said = [
        client("GET", f"/v1/{name}", key=token).text for name in ("balance/org", "what", "accounts")
    ]
    said += [client("POST", "/v1/reserve/org/team", key=token).text, caplog.text]
    assert not [text for text in said if token[-43:] in text]
