"""The proxy that is loaded beside a command: what waits for it, and what ends before it."""

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest

from budget_cpython.context.deadline import Deadline
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.run import background_proxy
from budget_cpython.run.background_proxy import BackgroundProxy
from budget_cpython.run.gate import ProxyGate
from budget_cpython.web.addresses import ListenAddress
from tests.paths import ROOT
from tests.run.support import PATIENCE, PYTHON, environment

HERE = ListenAddress("127.0.0.1")
# Runs a command with a proxy that begins to load once SECONDS are over, and prints what is loaded.
_RUN = """
import sys
from budget_cpython.cli import main
from budget_cpython.run import background_proxy
background_proxy._HEAD_START_S = SECONDS
BEFORE
code = main(["run", "--budget", "$1 + 10 min", "--quiet", "--", *sys.argv[1:]])
slow = ("asyncio", "httpx", "pydantic", "genai_prices", "rich", "starlette", "uvicorn")
print(*(name for name in slow if name in sys.modules))
sys.exit(code)
"""
_ENDED = """
import os, sys
from threading import Thread
from budget_cpython.run.command import Command
command = Command([sys.executable, "-c", "import time; time.sleep(600)"], os.environ, grace=600)
Thread(target=command.end).start()
sys.exit(command.run().code)
"""


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request, and the server's lifespan."""
    if scope["type"] == "lifespan":
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.fixture
def listener() -> Iterator[Any]:
    with HERE.listen() as listener:
        yield listener


def gate() -> ProxyGate:
    return ProxyGate(answer, 1, Deadline.never(), UsageByModel())


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def program(seconds: float, *command: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    text = _RUN.replace("SECONDS", str(seconds)).replace("BEFORE", before)
    return python(text, *command)


def python(text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in a process of its own: a command's end takes all descendants with it."""
    return subprocess.run(
        [PYTHON, "-c", text, *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_request_waits_until_the_proxy_is_loaded(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 0)
    loading, loaded = Event(), Event()

    def make() -> ProxyGate:
        loading.set()
        loaded.wait()
        return gate()

    url = HERE.url(listener)
    with (
        BackgroundProxy(make, listener, url, lambda: None) as proxy,
        ThreadPoolExecutor() as threads,
    ):
        assert loading.wait(PATIENCE)
        asked = threads.submit(httpx.get, url, timeout=PATIENCE)
        assert proxy.gate is None
        assert not asked.done()
        loaded.set()
        assert asked.result().text == "hi"
    assert proxy.error is None


def test_a_client_that_connects_is_a_reason_to_load(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 600)
    url = HERE.url(listener)
    with BackgroundProxy(gate, listener, url, lambda: None):
        assert httpx.get(url, timeout=PATIENCE).text == "hi"


def test_a_command_that_ends_within_its_head_start_needs_no_proxy(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 600)
    with BackgroundProxy(gate, listener, "", lambda: None) as proxy:
        pass
    assert (proxy.gate, proxy.error) == (None, None)


def test_a_proxy_that_cannot_be_loaded_refuses_connections(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 0)
    failed = Event()

    def make() -> ProxyGate:
        raise OSError("no room")

    url = HERE.url(listener)
    with BackgroundProxy(make, listener, url, failed.set) as proxy:
        assert failed.wait(PATIENCE)
        assert str(proxy.error) == "no room"
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, timeout=PATIENCE)


def test_a_proxy_that_a_module_ends_while_it_loads_refuses_connections(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 0)
    failed = Event()

    def make() -> ProxyGate:
        raise SystemExit(9)

    url = HERE.url(listener)
    with BackgroundProxy(make, listener, url, failed.set) as proxy:
        assert failed.wait(PATIENCE)
        assert isinstance(proxy.error, RuntimeError)
        assert "SystemExit(9)" in str(proxy.error)
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, timeout=PATIENCE)


def test_a_command_that_has_ended_needs_no_proxy_that_fails_then(
    listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_proxy, "_HEAD_START_S", 0)
    loading, ended, failed = Event(), Event(), Event()

    def make() -> ProxyGate:
        loading.set()
        assert ended.wait(PATIENCE)
        raise OSError("no room")

    proxy = BackgroundProxy(make, listener, "", failed.set)
    with ThreadPoolExecutor() as threads, proxy:
        assert loading.wait(PATIENCE)
        proxy._over.set()  # as at the end of this block
        threads.submit(ended.set)
    assert proxy.error is None
    assert not failed.is_set()


def test_a_command_is_ended_from_another_thread() -> None:
    done = python(_ENDED)
    assert (done.returncode, done.stderr) == (128 + 15, "")


def test_nothing_that_takes_long_is_loaded_before_the_command_runs() -> None:
    done = program(600, "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_a_command_whose_proxy_cannot_be_loaded_is_ended() -> None:
    broken = "sys.modules['budget_cpython.proxy.exchange'] = None"
    done = program(0, "sleep", "600", before=broken)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "budget_cpython.proxy.exchange" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--upstream", "openai=ftp://x"), "must be like https://HOST/PATH"),
        (("--upstream", "v1=https://api.openai.com/v1"), "an upstream's name"),
        (("--repeats", "1"), "repeats must be a whole number >= 2"),
    ],
)
def test_what_the_proxy_would_refuse_is_refused_before_the_command_runs(
    options: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from budget_cpython.cli import main

    assert main(["run", "--budget", "9 calls", *options, "--", "echo", "ran"]) == 2
    said = capfd.readouterr()
    assert says in said.err
    assert "ran" not in said.out


@pytest.mark.parametrize(
    ("module", "says"),
    [("uvicorn", "microbudget[proxy]"), ("genai_prices", "microbudget[prices]")],
)
def test_a_missing_package_is_named_before_the_command_runs(module: str, says: str) -> None:
    done = program(600, "echo", "ran", before=f"sys.modules[{module!r}] = None")
    assert done.returncode == 1
    assert says in done.stderr
    assert "ran" not in done.stdout
