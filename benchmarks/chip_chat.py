"""The chat of a board on the emulated chip, its network replaced by answers that are made there.

`boards/unix/main.py` runs as it is. Two questions are typed; each is a turn of five LLM calls with
two tools. With a ledger the answers of a service, whose account has no limit, are made too.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.emulated_chip import KIB, EmulatedChip
from benchmarks.mpy import ROOT
from budget_cpython.board.build import Form, build_core, romfs_image

_HEAP = 512 * KIB
_TURNS = 2
_SETTINGS = (ROOT / "boards/unix/settings.py").read_text()
_LEDGER = _SETTINGS.replace('LEDGER = ""', 'LEDGER = "http://127.0.0.1:8321"')
_PROGRAM = """
import asyncio, json, sys

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


def chat(form: Form, ledger: bool, stack: int) -> str:
    """Return what the chat of a board shows; raise where a turn did not make its calls."""
    with TemporaryDirectory() as made:
        files, core = Path(made, "files"), Path(made, "core")
        files.mkdir()
        build_core(form, core)
        image = romfs_image(core) if form is Form.ROMFS else None
        if image is None:
            core.rename(files / "lib")
        (files / "settings.py").write_text(_LEDGER if ledger else _SETTINGS)
        (files / "main.py").write_bytes((ROOT / "boards/unix/main.py").read_bytes())
        with EmulatedChip(_HEAP, stack, image, files) as chip:
            shown = chip.run(_PROGRAM)
    if shown.count("tokens in 5 calls") != _TURNS or "error" in shown:
        raise RuntimeError(f"the chat of a board ended early: {shown}")
    return shown
