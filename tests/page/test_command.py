"""The command `microbudget page`, and the page of the proxy."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_cpython.cli import main
from budget_cpython.ledger.default_ledger import default_url, usable_default
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.opening import open_ledger
from budget_cpython.proxy import Access, Proxy
from budget_cpython.proxy.accounts import Rules
from budget_cpython.web.keys import KeyFile
from tests.page.support import Document, Visitor, make_ledger
from tests.ports import kept_port
from tests.proxy.support import Behind
from tests.serve.support import PATIENCE, Service


class PageCommand(Service):
    """The command, as a process."""

    COMMAND = ["page"]


def test_it_shows_the_default_ledger_to_those_who_know_the_url() -> None:
    with usable_default(default_url()):
        ledger = open_ledger(default_url())
        ledger.set_limits("local/agent", parse_limits("$1/day"))
    with PageCommand() as page:
        head, _, token = page.url.rstrip("/").rpartition("/")
        assert head.startswith("http://127.0.0.1:")
        assert len(token) >= 32
        with httpx.Client(timeout=PATIENCE) as client:
            shown = client.get(page.url)
            assert "local/agent" in Document(shown.text).root.part("accounts").text
            assert "set-cookie" not in shown.headers
            for place in (
                "/",
                "/microbudget/",
                f"/{token[:-1]}/",
                "/static/page.js",
                "/v1/accounts",
            ):
                assert client.get(head + place).status_code == 404
            rebound = client.get(page.url, headers={"Host": "evil.example"})
            assert rebound.status_code == 403
            assert "local/agent" not in rebound.text
            form = {"limits": "$2/day", "stamp": '[["nano_usd", 1000000000, "day"]]'}
            form["apply"] = "yes"
            form["token"] = (
                Document(client.get(f"{page.url}account/local/agent").text)
                .root.all("input", name="token")[0]
                .attributes["value"]
            )
            assert client.post(f"{page.url}limits/local/agent", data=form).status_code == 303
        assert page.end() == (0, "")
    _, event = ledger.events(kinds=["limits"])
    assert event.details["by"].startswith("user ")
    assert ledger.limits("local/agent") == parse_limits("$2/day")
    ledger.close()


def test_it_opens_a_browser_by_a_file_that_only_its_user_reads(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    file = tmp_path / "b.db"
    ledger = open_ledger(f"sqlite:{file}")
    ledger.set_limits("a", parse_limits("$1/day"))
    ledger.close()
    with PageCommand("--open", "--ledger", f"sqlite:{file}", BROWSER=str(browser)) as page:
        while not seen.exists():
            assert page.poll() is None
        assert f'content="0; url={page.url}"' in seen.read_text()
        assert page.end() == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 1, "there is no ledger"),
        (["--ledger", "memory:"], 2, "a ledger of each process's own"),
        (["--listen", "0.0.0.0:0"], 2, "is not 127.0.0.1:PORT"),
        (["--listen", "unix:/tmp/x"], 2, "is not 127.0.0.1:PORT"),
    ],
)
def test_it_refuses_what_it_cannot_show(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["page", *arguments]) == code
    assert said in capsys.readouterr().err


def proxy(upstream: str, keys: KeyFile | None = None, **more: Any) -> Proxy:
    ledger = make_ledger()
    access = Access("acme/lab", keys)
    rules = Rules([])
    return Proxy(
        {"openai": upstream}, lambda path: rules, access=access, ledger=ledger, page=True, **more
    )


def test_a_proxy_shows_browsers_the_accounts_that_it_counts() -> None:
    guest = Visitor(proxy("http://127.0.0.1:1").app)
    answer = guest.get("/", Accept="text/html,*/*")
    assert answer.headers["location"] == "/microbudget/"
    table = guest.see().part("accounts").all("table")[0]
    assert [one.text for one in table.all("a")] == ["acme/lab", "ann"]
    assert guest.get("account/acme").status_code == 403


def test_a_proxy_passes_on_what_is_no_browsers_and_shows_no_page_of_an_upstream() -> None:
    with Behind(lambda http: http.reply({"here": "upstream"})) as upstream:
        with proxy(upstream.url).running() as url, httpx.Client(timeout=PATIENCE) as client:
            assert client.get(url).json() == {"here": "upstream"}
            page = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
            assert client.get(f"{url}/v1/models", headers=page).status_code == 403
        assert [one.path for one in upstream.requests] == ["/"]


def test_a_proxy_with_keys_asks_for_one(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    guest = Visitor(proxy("http://127.0.0.1:1", keys, page_secret=b"shared").app)
    assert guest.get().status_code == 401
    guest.sign_in(keys.add("ann", "acme/ops", ["read"]))
    assert "acme/ops" in guest.see().part("accounts").text
    worker = Visitor(proxy("http://127.0.0.1:1", keys, page_secret=b"shared").app)
    worker.cookies = guest.cookies
    assert "acme/ops" in worker.see().part("accounts").text


def test_a_proxy_without_the_page_passes_everything_on() -> None:
    with Behind(lambda http: http.reply({"here": "upstream"})) as upstream:
        plain = Proxy({"openai": upstream.url}, lambda path: Rules([]), ledger=make_ledger())
        with plain.running() as url, httpx.Client(timeout=PATIENCE) as client:
            for place in ("/", "/microbudget/"):
                answer = client.get(url + place, headers={"Accept": "text/html"})
                assert answer.json() == {"here": "upstream"}


def test_no_upstream_takes_the_pages_place() -> None:
    with pytest.raises(ValueError, match="needs another name"):
        Proxy({"microbudget": "http://x"}, lambda path: Rules([]), ledger=make_ledger(), page=True)


def test_a_file_that_is_no_ledger_ends_the_command_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Water the tomatoes." * 99)
    assert main(["page", "--ledger", f"sqlite:{file}"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "is damaged" in said.err


def test_a_server_that_is_not_there_yet_is_a_warning() -> None:
    with kept_port() as port, PageCommand("--ledger", f"http://127.0.0.1:{port}") as page:
        code, complaints = page.end()
    assert code == 0
    assert complaints.startswith("warning: the ledger cannot be used yet: ")
