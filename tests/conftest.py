"""Let no verdict depend on how busy the machine is, or on what began the tests."""

import gc
import importlib
import importlib.util
import os
import signal
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import properties

MOST_S = 1800  # for one test: the longest campaign on a busy machine

settings.register_profile(
    "unhurried",
    settings(),  # of a developer, or of CI
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")
_COUNT = count()


@pytest.fixture(autouse=True)
def default_ledger_of_a_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Have each test, and the programs that it starts, use a default ledger of its own."""
    folder = tmp_path_factory.getbasetemp() / f"state-{next(_COUNT)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.delenv("MICROBUDGET_ENGINE", raising=False)


@pytest.fixture(scope="session", autouse=True)
def trust_that_is_read_once() -> Iterator[None]:
    """Have all HTTP clients share what they trust by default, which takes 12 ms to read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("httpx", "httpx2"):
            if importlib.util.find_spec(name):
                transports = importlib.import_module(f"{name}._transports.default")
                once = _once(transports.create_ssl_context)
                patch.setattr(transports, "create_ssl_context", once)
        yield


def _once(create: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[object, Any] = {}

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is not True or cert is not None:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        named = (trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        if named not in made:
            made[named] = create(trust_env=trust_env)
        return made[named]

    return context


def pytest_configure(config: pytest.Config) -> None:
    """Say before any test is loaded whether the slow ones are left out; set up signals."""
    properties.without_slow = config.option.markexpr == "not slow"
    os.environ["XDG_STATE_HOME"] = os.devnull  # outside tests a default ledger cannot be used
    use_the_usual_signals()


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of every later collection of garbage."""
    keep_out_of_collections()


def keep_out_of_collections() -> None:
    """Collect once, and keep all that is left out of later collections.

    The board's programs collect after each turn, which takes a second where all tests are loaded.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Fail a test that waits for ever, by an alarm that interrupts what it waits for."""

    def end(*_: object) -> None:
        pytest.fail(f"it has not ended within {MOST_S} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(MOST_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if nextitem is not None and nextitem.path != item.path:
            keep_out_of_collections()  # what the tests of a file have loaded


def use_the_usual_signals() -> None:
    """Start programs with the usual signals, and leave none of them behind when terminated.

    `nohup`, and a shell that starts the tests in the background, ignore signals, and what is
    ignored stays ignored in every child. What has a handler is reset in a child.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    ours = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() == ours:
            pytest.exit("terminated", returncode=128 + number)
        signal.signal(number, signal.SIG_DFL)  # of a process that a test forked
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
