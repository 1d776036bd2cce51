"""Try the client in one way after another and print what came of each; runs on both runtimes.

    python -m tests.chat.client_program PORT TLS_PORT DEAD_PORT CERTIFICATE DER_FILE

The ports are a server's, a TLS server's, and one where nobody listens. The certificate is in PEM;
the other file has another and it, both in DER.
"""

import asyncio
import gc
import json
import os
import sys

from budget_core.chat.client import ChatClient
from budget_core.chat.tls import tls_context
from budget_core.errors import ProviderError
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEY = "sk-Secret-0123456789"
HELLO = [{"role": "user", "content": "Grüße 😀"}]
LONG = [{"role": "user", "content": "x" * 1_000_000}]
PORT, TLS_PORT, DEAD_PORT, CERTIFICATE, DER_FILE = sys.argv[1:]
BASE = f"http://127.0.0.1:{PORT}/"
PLAIN = ("known", "chunked", "closed", "bytewise", "refusal")
HUNG = {
    "silence": 0,
    "hung status": 0,
    "hung head": 200,
    "hung body": 200,
    "hung chunk": 200,
    "hung refusal": 500,
}
BROKEN = ("leaves", "leaves in head", "leaves in body", "reset", "reset in body", "flood")
STREAMED = ("stream", "leaves in stream")
SETTLED = ("leaves in stream", "leaves after usage", "leaves in body")
IMPATIENT = 0.2
PATIENT = 60
TIMEOUTS = (IMPATIENT, 2, 20)  # the longer ones for machines that are busy


class DeafError(Exception):
    """What a listener raises."""


class Listener:
    """Someone who hears deltas, and may be unable to."""

    def __init__(self, deaf: bool = False) -> None:
        self.heard: list[str] = []
        self.first = asyncio.Event()
        self.deaf = deaf

    async def hear(self, text: str) -> None:
        """Take a delta."""
        self.heard.append(text)
        self.first.set()
        if self.deaf:
            raise DeafError


def client(base: str, timeout_s: float = PATIENT, tls: "Any" = None) -> ChatClient:
    return ChatClient(base.replace(" ", "%20"), "small", KEY, timeout_s, 65_536, tls, retries=0)


def descriptors() -> int:
    """Return how many files and sockets are open."""
    gc.collect()
    return len(os.listdir("/dev/fd"))


async def told(attempt: "Any") -> "dict[str, Any]":
    """Return what came of an attempt."""
    try:
        response = await attempt
    except ProviderError as error:
        return {"status": error.status, "error": str(error)}
    except (DeafError, asyncio.TimeoutError) as error:  # noqa: UP041 - MicroPython has no other
        return {"raised": type(error).__name__}
    return {"content": response.content}


async def tell(name: str, attempt: "Any", listener: "Listener | None" = None) -> "dict[str, Any]":
    """Print what came of an attempt, and how many sockets it left open."""
    before = descriptors()
    saw = await told(attempt)
    saw["left_open"] = descriptors() - before
    if listener:
        saw["heard"] = listener.heard
    print(json.dumps({"name": name, "saw": saw}))
    return saw


async def hung(name: str, status: int) -> None:
    """Wait for a server that hangs, longer until it got as far as a status."""
    for timeout_s in TIMEOUTS:
        saw = await tell(name, client(BASE + name, timeout_s).chat(HELLO))
        if saw["status"] == status and "reading" in saw["error"]:
            return


async def hung_stream() -> None:
    """Wait for a stream that hangs, longer until there was something to hear."""
    for timeout_s in TIMEOUTS:
        listener = Listener()
        attempt = client(BASE + "hung stream", timeout_s).chat(HELLO, on_delta=listener.hear)
        await tell("hung stream", attempt, listener)
        if listener.heard:
            return


async def cancelled(name: str) -> None:
    """Cancel a streamed call after its first delta."""
    before = descriptors()
    listener = Listener()
    chat = client(BASE + name).chat(HELLO, on_delta=listener.hear)
    task = asyncio.create_task(chat)
    await listener.first.wait()
    task.cancel()
    ended = "finished"
    try:
        await task
    except asyncio.CancelledError:
        ended = "cancelled"
    saw = {"ended": ended, "left_open": descriptors() - before, "heard": listener.heard}
    print(json.dumps({"name": "cancelled", "saw": saw}))


async def settled(name: str) -> None:
    """Stream within a budget from a server that breaks off, and tell what the budget counted."""
    before = descriptors()
    turn = BudgetWrapper(client(BASE + name), TurnBudgetTracker())
    saw = await told(turn.chat(HELLO, on_delta=Listener().hear))
    saw.update(tokens=turn.tracker.total_tokens, usage_seen=turn.tracker.usage_seen)
    saw["left_open"] = descriptors() - before
    print(json.dumps({"name": "settled, " + name, "saw": saw}))


async def refused() -> None:
    """Call a port where nobody listens, and tell what a budget with estimates counted."""
    before = descriptors()
    nobody = client(f"http://127.0.0.1:{DEAD_PORT}")
    turn = BudgetWrapper(nobody, TurnBudgetTracker(), estimates=True)
    saw = await told(turn.chat(HELLO))
    saw.update(tokens=turn.tracker.total_tokens, usage_seen=turn.tracker.usage_seen)
    saw["left_open"] = descriptors() - before
    print(json.dumps({"name": "settled, nobody there", "saw": saw}))


async def encrypted() -> None:
    """Talk to the TLS server in every way."""
    trusting = tls_context(CERTIFICATE)
    for name, host, tls in (
        ("trusted", "localhost", trusting),
        ("trusted again", "localhost", trusting),
        ("trusted in DER", "localhost", tls_context(DER_FILE)),
        ("untrusted", "localhost", None),
        ("of another name", "127.0.0.1", trusting),
    ):
        base = f"https://{host}:{TLS_PORT}/known"
        await tell(name, client(base, tls=tls).chat(HELLO))
    hung = client(f"https://localhost:{TLS_PORT}/hung body", IMPATIENT, trusting)
    await tell("encrypted and hung", hung.chat(HELLO))
    await tell("encrypted for plain", client(f"http://localhost:{TLS_PORT}/known").chat(HELLO))
    mute = client(f"https://127.0.0.1:{PORT}/known", IMPATIENT, trusting)
    await tell("plain for encrypted", mute.chat(HELLO))


async def main() -> None:
    """Try it all."""
    await told(client(BASE + "known").chat(HELLO))  # opens what asyncio keeps open
    for name in PLAIN + BROKEN:
        await tell(name, client(BASE + name).chat(HELLO))
    for name, status in HUNG.items():
        await hung(name, status)
    await hung_stream()
    for name in STREAMED:
        listener = Listener()
        await tell(name, client(BASE + name).chat(HELLO, on_delta=listener.hear), listener)
    listener = Listener(deaf=True)
    await tell("deaf", client(BASE + "stream on").chat(HELLO, on_delta=listener.hear), listener)
    await cancelled("stream on")
    for name in SETTLED:
        await settled(name)
    await refused()
    given_up = asyncio.wait_for(client(BASE + "silence").chat(HELLO), IMPATIENT)
    await tell("given up", given_up)
    await tell("long", client(BASE + "known").chat(LONG))
    await tell("nobody there", client(f"http://127.0.0.1:{DEAD_PORT}").chat(HELLO))
    for name, host in (("unknown host", "no-such-host.invalid"), ("no host at all", "a..b")):
        await tell(name, client(f"http://{host}:1").chat(HELLO))
    await encrypted()


asyncio.run(main())
