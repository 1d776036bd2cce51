"""The page in a browser: what it does with script, by keyboard, on a phone, in the dark."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.serve.app import make_app
from budget_cpython.web.keys import KeyFile
from budget_cpython.web.server import running
from tests.page.browser import DESKTOP, PHONE, Browser, running_browser
from tests.page.support import HOSTILE, make_ledger, note_a_day
from tests.paths import ROOT
from tests_micro.support import FakeClock

pytestmark = pytest.mark.slow
SETUP_S = 900
VIEWS = ("", "account/acme", "account/acme/lab/ann", "?q=nothing")
AXE = "axe.run().then(found => found.violations.map(one => [one.id, one.nodes[0].html]))"
NOON = 1_772_366_400  # 2026-03-01 12:00 UTC


def made_by(script: str) -> str:
    """Return the path that a script of set-up prints; skip the test where it cannot be had."""
    done = subprocess.run(
        [ROOT / "scripts" / script], capture_output=True, text=True, timeout=SETUP_S, check=False
    )
    if done.returncode == 3:
        pytest.skip(done.stderr.strip()[-500:])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    with running_browser(made_by("browser.sh"), folder) as found:
        yield found
        assert found.errors == []
        assert {one.partition("/")[0] for one in found.requested} <= {"http:", "about:blank"}
        assert all("//127.0.0.1:" in one for one in found.requested if one != "about:blank")


@pytest.fixture(scope="module")
def axe() -> str:
    return Path(made_by("node.sh"), "axe-core/axe.min.js").read_text()


@pytest.fixture
def ledger() -> Ledger:
    found = make_ledger()
    note_a_day(found, model=HOSTILE, tool=f"<img src=x onerror={HOSTILE}>")
    return found


@pytest.fixture
def url(ledger: Ledger) -> Iterator[str]:
    with running(make_app(ledger, clock=FakeClock(NOON)), "127.0.0.1:0") as found:
        yield f"{found}/microbudget/"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_view_has_a_barrier_or_scrolls_sideways(
    browser: Browser, axe: str, url: str, size: tuple[int, int], dark: bool
) -> None:
    browser.resize(size, dark)
    pictures = os.environ.get("PAGE_PICTURES")
    for number, view in enumerate(VIEWS):
        browser.open(url + view)
        browser.run(f"{axe}; 0")
        assert browser.run(AXE) == []
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert browser.run(wide)
        if pictures:
            browser.picture(Path(pictures, f"{number}-{size[0]}-{'dark' if dark else 'light'}.png"))


def test_times_are_in_the_readers_zone_and_in_utc_without_script(
    browser: Browser, url: str
) -> None:
    time = "document.querySelector('#over time').textContent"
    browser.resize(DESKTOP, script=False)
    browser.open(url)
    browser.resize(DESKTOP)
    assert browser.run(time) == "2026-03-02 00:00 UTC"
    browser.zone("Asia/Kolkata")
    browser.open(url)
    browser.wait(f"{time}.includes('05:30')")
    assert browser.run("document.querySelector('#over time').title") == "2026-03-02 00:00 UTC"


def test_a_change_in_the_ledger_is_shown_and_the_focus_stays(
    browser: Browser, url: str, ledger: Ledger
) -> None:
    browser.resize(DESKTOP)
    browser.open(url)
    browser.wait("document.getElementById('live').textContent === 'Live'")
    browser.run("document.querySelector('#accounts table a[href$=\"acme/lab\"]').focus()")
    ledger.set_limits("zebra", [Limit("calls", 5, "day")])
    browser.wait("document.querySelector('#accounts table').textContent.includes('zebra')")
    assert browser.run("document.activeElement.getAttribute('href')").endswith("/account/acme/lab")
    assert browser.run("document.title") == "Budgets \N{MIDDLE DOT} microbudget"


def test_a_limit_is_changed_by_keyboard_alone(
    browser: Browser, axe: str, url: str, ledger: Ledger
) -> None:
    browser.resize(DESKTOP)
    browser.open(f"{url}account/other")
    browser.run("document.getElementById('limits').select()")
    browser.type("$9/month + 5 foo")
    browser.press("Enter")
    browser.wait("document.getElementById('problem') !== null")
    browser.run(f"{axe}; 0")
    assert browser.run(AXE) == []
    assert browser.run("document.activeElement.id") == "limits"
    browser.run("document.activeElement.select()")
    browser.type("$9/month")
    browser.press("Enter")
    browser.wait("document.querySelector('button[name=apply]') !== null")
    browser.run(f"{axe}; 0")
    assert browser.run(AXE) == []
    for _ in range(12):
        if browser.run("document.activeElement.name") == "apply":
            break
        browser.press("Tab")
    browser.press("Enter")
    browser.wait("document.querySelector('#head h3')?.textContent.includes('$9/month') ?? false")
    assert [one.cap for one in ledger.limits("other")] == [9 * 10**9]


def test_a_key_is_typed_once_and_scripts_do_not_see_the_session(
    browser: Browser, axe: str, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("ann", "acme", ["read"])
    with running(make_app(make_ledger(), keys), "127.0.0.1:0") as url:
        browser.resize(PHONE)
        browser.open(url)
        browser.run(f"{axe}; 0")
        assert browser.run(AXE) == []
        assert browser.run("document.activeElement.id") == "key"
        browser.type(key)
        browser.press("Enter")
        browser.wait("document.getElementById('accounts') !== null")
        assert browser.run("document.cookie") == ""
        assert browser.run("document.querySelectorAll('#change').length") == 0
        browser.run("document.querySelector('form[action$=sign-out] button').click()")
        browser.wait("document.getElementById('key') !== null")


def test_hostile_names_run_nothing(browser: Browser, url: str) -> None:
    browser.resize(DESKTOP)
    browser.open(f"{url}?q=%3Cscript%3Ealert(1)%3C/script%3E")
    browser.open(url)
    assert HOSTILE in browser.run("document.getElementById('spend').textContent")
    assert browser.run("document.scripts.length") == 1
    assert browser.errors == []
