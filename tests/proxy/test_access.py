"""Keys of ours: whose account they draw on, and which keys the upstream sees."""

import os
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.cli import main
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.default_ledger import default_account
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy import Access, Proxy, Rules, Upstream
from budget_cpython.web.keys import KeyFile
from tests.paths import ROOT
from tests.proxy.support import ASKED, CHAT, Behind, ProxyCommand, Request, get, post, usage


def answering(http: Request) -> None:
    http.reply({"choices": [], "usage": usage(7, 5)})


class Served:
    """A proxy with keys of three accounts; `spent` is what each of them used."""

    def __init__(self, tmp_path: Path, upstream: Upstream) -> None:
        self.ledger = Ledger()
        for account in ("org", "org/ann", "org/bob", "rest"):
            self.ledger.set_limits(account, parse_limits("9 calls"))
        keys = KeyFile(tmp_path / "keys.json")
        self.ann = keys.add("ann", "org/ann", ["reserve"])
        self.every = keys.add("every", "*", ["reserve"])
        self.reader = keys.add("reader", "org", ["read"])
        self.keys = keys
        self.proxy = Proxy(
            {"it": upstream},
            lambda path: Rules([BudgetAccount((), self.ledger, path)]),
            access=Access("rest", keys),
            ledger=self.ledger,
        )

    def spent(self, account: str) -> int:
        row: Any = self.ledger.balance(account)[-1]
        assert row.account == account
        return int(row.spent)


def test_a_key_draws_on_its_account_and_those_above_it(tmp_path: Path) -> None:
    with Behind(answering) as behind:
        served = Served(tmp_path, Upstream("it", behind.url))
        with served.proxy.running() as url:

            def ask(key: str, **headers: str) -> int:
                head = {"Authorization": f"Bearer {key}", **headers}
                named = {name.replace("_", "-"): value for name, value in head.items()}
                return post(url + CHAT, json=ASKED, headers=named).status_code

            assert ask(served.ann) == 200
            assert (served.spent("org/ann"), served.spent("org")) == (1, 1)
            assert ask(served.ann, x_microbudget_account="org/ann/agent") == 200
            assert ask(served.ann, x_microbudget_account="org/bob") == 403
            assert ask(served.ann, x_microbudget_account="//") == 400
            assert ask(served.every) == 200
            assert ask(served.every, x_microbudget_account="org/bob") == 200
            assert (served.spent("rest"), served.spent("org/bob"), served.spent("org")) == (1, 1, 3)
            assert ask(served.reader) == 403
            assert ask("mb.ann.wrong") == 401
            served.keys.revoke("ann")
            assert ask(served.ann) == 401
            assert len(behind.requests) == 4


@pytest.mark.parametrize(
    "header", ["Authorization", "x-api-key", "x-goog-api-key", "x-microbudget-key"]
)
def test_a_key_of_ours_comes_as_sdks_send_theirs_and_never_goes_upstream(
    tmp_path: Path, header: str
) -> None:
    with Behind(answering) as behind:
        served = Served(tmp_path, Upstream("it", behind.url, "theirs"))
        with served.proxy.running() as url:
            key = f"Bearer {served.ann}" if header == "Authorization" else served.ann
            assert post(url + CHAT, json=ASKED, headers={header: key}).status_code == 200
        sent = str(behind.requests[0].headers)
        assert "theirs" in sent
        assert served.ann not in sent


def test_without_a_key_of_the_upstream_ours_is_left_out_and_the_clients_own_passes(
    tmp_path: Path,
) -> None:
    with Behind(answering) as behind:
        served = Served(tmp_path, Upstream("it", behind.url))
        with served.proxy.running() as url:
            post(url + CHAT, json=ASKED, headers={"x-api-key": served.ann})
            both = {"Authorization": "Bearer mine", "x-microbudget-key": served.ann}
            post(url + CHAT, json=ASKED, headers=both)
        one, two = (request.headers for request in behind.requests)
        assert one["x-api-key"] is None
        assert two["Authorization"] == "Bearer mine"
        assert served.ann not in str(one) + str(two)


def test_a_limit_with_a_window_survives_the_proxy() -> None:
    account = default_account("127.0.0.1:0", str(ROOT / "proxy"))
    with Behind(answering) as behind:
        statuses: list[int] = []
        said: list[str] = []
        for limits in ("2 calls/day", "2 calls/day", "3 calls/day"):
            with ProxyCommand("--upstream", f"it={behind.url}", "--limit", limits) as proxy:
                for _ in range(2 - len(statuses) // 2):
                    statuses.append(post(proxy.url + CHAT, json=ASKED).status_code)
                said.append(proxy.end()[1])
    assert statuses == [200, 200, 402, 200]
    file = f"{os.environ['XDG_STATE_HOME']}/microbudget/ledger.db"
    assert f"2 calls per day of {account} are counted in {file} from now on" in said[0]
    assert said[1] == ""
    assert "are 3 calls per day now, and were 2 calls per day" in said[2]


def test_a_limit_without_a_window_beside_one_needs_a_ledger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, complaints = cli(capsys, *UP, "--limit", "$5/day + 9 calls")
    assert code == 2
    assert "as in '100 calls/day', or --ledger" in complaints


def test_a_file_of_keys_that_cannot_be_trusted_lets_no_key_in(tmp_path: Path) -> None:
    with Behind(answering) as behind:
        served = Served(tmp_path, Upstream("it", behind.url))
        Path(served.keys.path).chmod(0o666)
        with served.proxy.running() as url:
            headers = {"Authorization": f"Bearer {served.ann}"}
            assert post(url + CHAT, json=ASKED, headers=headers).status_code == 503
        assert behind.requests == []


def cli(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run the command here; return the exit code, and what it complained of."""
    try:
        code = main(["proxy", *map(str, arguments)])
    except SystemExit as usage_error:
        code = int(usage_error.code or 0)
    return code, capsys.readouterr().err


UP = ("--upstream", "it=http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--limit", "9 calls"), "--upstream"),
        ((*UP,), "give --limit"),
        ((*UP, "--limit", "many"), "many"),
        ((*UP, "--limit", "5 foo"), "the limit of account 'proxy': '5 foo' limits nothing"),
        ((*UP, "--limit", "5 foo"), "write calls, tokens, or dollars such as '$5'"),
        ((*UP, "--limit", "5 toolcalls"), "did you mean '5 calls'?"),
        ((*UP, "--limit", "5 min"), "'5 min' is a time"),
        ((*UP, "--limit", "5 cals"), "did you mean '5 calls'?"),
        ((*UP, "--limit", "5 tool_calls"), "no calls of tools"),
        ((*UP, "--limit", "9 calls", "--workers", "2"), "give --ledger"),
        ((*UP, "--limit", "9 calls", "--listen", "0.0.0.0:0"), "--keys"),
        ((*UP, "--limit", "9 calls", "--account", "//"), "path"),
        ((*UP, "--limit", "9 calls", "--expect", "some"), "some"),
        ((*UP, "--limit", "9 calls", "--wait", "-1"), "seconds"),
        ((*UP, "--limit", "9 calls", "--repeats", "1"), "repeats must be a whole number >= 2"),
        ((*UP, "--limit", "9 calls", "--ledger-key", "env:HOME"), "http://"),
        ((*UP, "--limit", "9 calls", "--upstream-key", "it=secret"), "@FILE"),
        ((*UP, "--limit", "9 calls", "--ledger", "nowhere:"), "memory:"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, complaints = cli(capsys, *arguments)
    assert code == 2
    assert says in complaints.splitlines()[-1]
    assert "secret" not in complaints


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "not TOML"),
        ("[other]", "'other'"),
        ("accounts = 1", "tables"),
        ('[accounts."//"]', "path"),
        ('[accounts."a"]\nlimits = "9 calls"', "'limits'"),
        ('[accounts."a"]\nlimit = "many"', "many"),
        ('[accounts."a"]\nlimit = "5 foo"', "'5 foo' limits nothing"),
        ('[accounts."a"]\nlimit = "5 tool:foo"', "no calls of tools"),
        ('[accounts."a"]\nstrict = "yes"', "strict"),
        ('[accounts."a"]\nwait = true', "wait"),
        ('[accounts."a"]\nexpect = "some"', "expect"),
        ('[accounts."a"]\nrepeats = "some"', "repeats"),
        ('[accounts."a"]\nrepeats = 1', "repeats must be a whole number >= 2"),
        ('[prices."m"]\ninput = "1"', "'m'"),
    ],
)
def test_a_mistake_in_the_settings_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "settings.toml").write_text(text)
    settings = ("--settings", tmp_path / "settings.toml")
    code, complaints = cli(capsys, *UP, "--limit", "9 calls", *settings)
    assert (code, len(complaints.splitlines())) == (2, 1)
    assert says in complaints


@pytest.mark.slow
def test_several_processes_share_a_ledger_and_end_together(tmp_path: Path) -> None:
    with Behind(answering) as behind:
        options = ["--upstream", f"it={behind.url}", "--limit", "20 calls", "--workers", "2"]
        with ProxyCommand(*options, "--ledger", f"sqlite:{tmp_path}/ledger.db") as proxy:
            statuses = [post(proxy.url + CHAT, json=ASKED).status_code for _ in range(30)]
            assert statuses == [200] * 20 + [402] * 10
            assert get(f"{proxy.url}/readyz").status_code == 200
            assert proxy.end()[0] == 0


def test_limits_on_money_need_prices(tmp_path: Path) -> None:
    (tmp_path / "genai_prices.py").write_text("raise ImportError")
    with ProxyCommand(*UP, "--limit", "$5/day", PYTHONPATH=str(tmp_path)) as proxy:
        _, complaints = proxy.communicate()
    assert proxy.returncode == 1
    assert "microbudget[proxy,prices]" in complaints
