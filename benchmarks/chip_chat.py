"""The chat of a board on the emulated chip, its network replaced by answers that are made there.

`boards/unix/boot.py` and `main.py` run as they are. Two questions are typed; each is a turn of five
LLM calls with two tools. With a ledger the answers of a service, whose account has no limit, are
made too.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.emulated_chip import KIB, STACK, EmulatedChip
from benchmarks.mpy import ROOT
from budget_cpython.board.build import Form, build_core, romfs_image

_HEAP = 512 * KIB
_PICO = 190 * KIB
_BLOCK = 16
_TURNS = 2
_SETTINGS = (ROOT / "boards/unix/settings.py").read_text()
_LEDGER = _SETTINGS.replace('LEDGER = ""', 'LEDGER = "http://127.0.0.1:8321"')
_PROGRAM = """
import sys
exec(open("/boot.py").read())
import asyncio, gc, json, micropython

class Keyboard:
    lines = ["What is left to do?", "And now?", None]

    def __init__(self, echo):
        pass

    async def line(self, prompt):
        return self.lines.pop(0)

class Wire:
    calls = 0

    def __init__(self):
        self.request = self.answer = b""

    def write(self, data):
        self.request += data

    async def drain(self):
        pass

    async def read(self, size):
        if self.request:
            body = json.dumps(self.said()).encode()
            self.answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
            self.request = b""
        piece, self.answer = self.answer[:size], self.answer[size:]
        return piece

    def said(self):
        head, _, body = self.request.decode().partition("\\r\\n\\r\\n")
        path = head.split()[1]
        if path.startswith("/v1/balance/"):
            return {"balances": []}
        if path.startswith("/v1/chat/"):
            return self.model()
        asked = json.loads(body)
        state = "held" if "/reserve/" in path else "committed"
        given = {"path": "boards/unix", "id": "1", "amounts": asked.get("amounts", {})}
        given.update(state=state, expires_at=2_000_000_000, actual=asked.get("actual"))
        return given

    def model(self):
        name = ("list_files", "read_chip", "list_files", "read_chip", None)[Wire.calls % 5]
        Wire.calls += 1
        gc.collect()
        micropython.mem_info()
        message = {"role": "assistant", "content": "The tomatoes want water."}
        if name:
            call = {"name": name, "arguments": "{}"}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        usage = {"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100}
        return {"choices": [{"message": message}], "usage": usage}

    def close(self):
        pass

    async def wait_closed(self):
        pass

async def connected(host, port, **options):
    wire = Wire()
    return wire, wire

asyncio.open_connection = connected

Keyboard.Keyboard = Keyboard
sys.modules["budget_core.board.line_input"] = Keyboard
exec(open("/main.py").read(), {"__name__": "__main__"})
"""


def largest_block(threshold: int) -> int:
    """Return the bytes of the largest free block at an LLM call of the chat, when it is least.

    The heap is a Pico W's, the core precompiled in the file system. It is collected after
    `threshold` bytes, below 0 only when it is full.
    """
    shown = chat(Form.MPY, False, STACK, _PICO, threshold)
    return min(map(int, re.findall(r"max free sz: (\d+)", shown))) * _BLOCK


def chat(
    form: Form, ledger: bool, stack: int, heap: int = _HEAP, threshold: int | None = None
) -> str:
    """Return what the chat of a board shows; raise where a turn did not make its calls."""
    with TemporaryDirectory() as made:
        files, core = Path(made, "files"), Path(made, "core")
        files.mkdir()
        build_core(form, core)
        image = romfs_image(core) if form is Form.ROMFS else None
        if image is None:
            core.rename(files / "lib")
        settings = _LEDGER if ledger else _SETTINGS
        if threshold is not None:
            settings += f"GC_THRESHOLD = {threshold}\n"
        (files / "settings.py").write_text(settings)
        for name in ("boot.py", "main.py"):
            (files / name).write_bytes((ROOT / "boards/unix" / name).read_bytes())
        with EmulatedChip(heap, stack, image, files) as chip:
            shown = chip.run(_PROGRAM)
    if shown.count("tokens in 5 calls") != _TURNS or "error" in shown:
        raise RuntimeError(f"the chat of a board ended early: {shown}")
    return shown
