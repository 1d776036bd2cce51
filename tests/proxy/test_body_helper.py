"""Large bodies are decoded in a process of the proxy, which ends with it and loses nothing."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from budget_core.usage_estimate import estimate_tokens
from budget_cpython.context.process_state import HELPERS
from budget_cpython.proxy.body_helper import HELPED, MOST_KEPT, BodyHelper, HelpedBody
from budget_cpython.run.descendants import descendants
from budget_cpython.vendors.format import WireBody
from budget_cpython.vendors.request import UnreadableRequestError
from tests.paths import ROOT
from tests.proxy.support import ASKED, CHAT, Behind, Request, budgeted, post, spent, usage
from tests.serve.support import PATIENCE
from tests.vendors.vectors import MESSAGES, admit, format_at

TEXT = "é \U0001f600 tomato " * HELPED
TOOLS = [{"type": "function", "function": {"name": "f", "description": "a" * 9000}}] * 100
BODIES: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"model": "m", "messages": [{"role": "user", "content": TEXT}]}),
    (CHAT, {"model": "m", "messages": [], "tools": TOOLS}),
    ("/v1/embeddings", {"model": "m", "input": ["a tomato"] * 50_000}),
    (MESSAGES, {"model": "m", "max_tokens": 9, "messages": [], "system": TEXT}),
    ("/v1/audio/speech", {"model": "m", "input": TEXT}),
]
LARGE_BODY = json.dumps(BODIES[0][1]).encode()


def answer(http: Request) -> None:
    http.reply({"choices": [{"message": {"content": "hi"}}], "usage": usage(7, 5)})


@pytest.fixture
def helper() -> Iterator[BodyHelper]:
    made = BodyHelper()
    try:
        yield made
    finally:
        made.close()


def process_of(helper: BodyHelper) -> Any:
    return vars(helper)["_process"]


def unread(pipe: Any) -> int:
    """Return how many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def wait_for(told: Callable[[], Any]) -> None:
    begun = time.monotonic()
    while not told():
        assert time.monotonic() - begun < PATIENCE
        time.sleep(0.01)


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("changes", [{}, {"max_tokens": 5}])
@pytest.mark.parametrize("as_asked", [True, False])
def test_a_large_body_is_read_and_written_as_here(
    helper: BodyHelper, path: str, body: dict[str, Any], changes: dict[str, Any], as_asked: bool
) -> None:
    content = json.dumps(body).encode()
    here = WireBody(format_at(path), content)
    there = HelpedBody(helper, as_asked, format_at(path), content)
    want, found = here.read(), there.read()
    messages, tools = want.without_tools() if as_asked else (want.messages, want.tools)
    assert estimate_tokens(found.messages, found.tools) == estimate_tokens(messages, tools)
    want.messages, want.tools = found.messages, found.tools
    assert found == want
    new = there.write(admit(found, **changes), found)
    if json.loads(new) == body:
        assert new is content
    assert new == here.write(admit(want, **changes), want)


def test_a_small_body_starts_no_process() -> None:
    with Behind(answer) as behind, budgeted(behind.url, "9 calls") as (url, _, proxy):
        assert post(url + CHAT, json=ASKED).status_code == 200
        assert process_of(vars(proxy)["_helper"]) is None


@pytest.mark.parametrize("content", [b"[" * 2 * HELPED, b'{"a":1,"a":' + b" " * HELPED + b"1}"])
def test_a_body_that_is_refused_here_is_refused_there(helper: BodyHelper, content: bytes) -> None:
    with pytest.raises(UnreadableRequestError) as here:
        WireBody(format_at(CHAT), content).read()
    with pytest.raises(UnreadableRequestError) as there:
        HelpedBody(helper, True, format_at(CHAT), content).read()
    assert str(there.value) == str(here.value)


def test_a_helper_that_has_ended_is_started_again_and_what_it_kept_is_read_again(
    helper: BodyHelper,
) -> None:
    body = HelpedBody(helper, True, format_at(CHAT), LARGE_BODY)
    request = body.read()
    process = process_of(helper)
    process.kill()
    process.wait()
    written = json.loads(body.write(admit(request, max_tokens=5), request))
    assert written == {**BODIES[0][1], "max_completion_tokens": 5}
    assert process_of(helper).pid in HELPERS
    assert process.pid not in HELPERS or process.pid == process_of(helper).pid


def test_of_many_bodies_that_wait_the_helper_keeps_some_and_reads_the_others_again(
    helper: BodyHelper,
) -> None:
    bodies = [HelpedBody(helper, True, format_at(CHAT), LARGE_BODY) for _ in range(MOST_KEPT + 2)]
    requests = [body.read() for body in bodies]
    kept = [is_kept(helper, body) for body in bodies[:3]]
    assert kept == [False, False, True]
    for body, request in zip(bodies, requests, strict=True):
        written = json.loads(body.write(admit(request, max_tokens=5), request))
        assert written == {**BODIES[0][1], "max_completion_tokens": 5}


def test_a_body_that_is_not_sent_is_dropped(helper: BodyHelper) -> None:
    body = HelpedBody(helper, True, format_at(CHAT), LARGE_BODY)
    body.read()
    twin = HelpedBody(helper, True, format_at(CHAT), LARGE_BODY)
    vars(twin)["_number"] = vars(body)["_number"]
    assert is_kept(helper, twin)
    body.read()  # it was written just now
    del body
    assert not is_kept(helper, twin)


def is_kept(helper: BodyHelper, body: HelpedBody) -> bool:
    """Tell whether the helper knows a body, which it writes and forgets for that."""
    fields = vars(body)
    admitted = admit(WireBody(format_at(CHAT), LARGE_BODY).read())
    found: bool = helper.ask((fields["_number"], admitted, *fields["_task"]))[0]
    return found


def test_a_call_whose_helper_dies_is_503_and_counts_nothing() -> None:
    with Behind(answer) as behind, budgeted(behind.url, "9 calls") as (url, account, proxy):
        assert post(url + CHAT, content=LARGE_BODY).status_code == 200
        process = process_of(vars(proxy)["_helper"])
        process.send_signal(signal.SIGSTOP)
        said: list[Any] = []
        ask = partial(post, url + CHAT, content=LARGE_BODY)
        asker = threading.Thread(target=lambda: said.append(ask()))
        asker.start()
        wait_for(lambda: unread(process.stdin))
        assert post(url + CHAT, json=ASKED).status_code == 200  # others go on
        process.kill()
        asker.join(PATIENCE)
        assert (said[0].status_code, said[0].headers.get("x-should-retry")) == (503, None)
        assert spent(account, "calls") == (2, 0)
        assert len(behind.requests) == 2
        assert ask().status_code == 200
        later = process_of(vars(proxy)["_helper"])
        assert later is not process
        assert later.poll() is None
    assert later.poll() is not None  # the proxy has ended


PROGRAM = """
import time
from budget_cpython.proxy.body_helper import HELPED, BodyHelper, HelpedBody
from budget_cpython.vendors.registry import find_format
helper = BodyHelper()
content = b'{"model": "m", "messages": ["' + b"a" * HELPED + b'"]}'
HelpedBody(helper, True, find_format("POST", "/v1/chat/completions"), content).read()
print(helper._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it reads /proc")
def test_the_helper_ends_with_a_proxy_that_is_killed_and_not_by_a_terminal() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as proxy:
        assert proxy.stdout is not None
        pid = int(proxy.stdout.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        assert os.getpgid(pid) == pid
        assert is_running(pid)
        proxy.kill()
        wait_for(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_run_does_not_wait_for_the_helper_of_its_own_proxy(helper: BodyHelper) -> None:
    HelpedBody(helper, True, format_at(CHAT), LARGE_BODY).read()
    assert process_of(helper).pid in HELPERS
    assert process_of(helper).pid not in descendants()
