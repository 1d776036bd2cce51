"""The helper process of a proxy: it decodes and writes large bodies, and others go on meanwhile.

To decode a body holds the interpreter. Here bytes, the `LlmRequest` and the `Admitted` pass between
the two; the decoded body stays in the helper until it is written or dropped.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from contextlib import suppress
from itertools import count
from struct import calcsize, pack, unpack
from threading import Lock
from typing import Any, BinaryIO, Final

from budget_cpython.context.process_state import HELPERS, begin_again_in_children
from budget_cpython.vendors.format import WireBody, WireFormat
from budget_cpython.vendors.request import Admitted, LlmRequest

HELPED: Final = 1 << 18  # bytes: larger bodies go to the helper
MOST_KEPT: Final = 4  # decoded bodies of calls that wait; an older one is decoded again
_SIZES: Final = "!QQ"  # of a pickled value and of the bytes after it
_PROGRAM: Final = (
    "import sys; sys.path[:] = {!r}; from budget_cpython.proxy.body_helper import serve; serve()"
)
_GIVES_BACK: Final = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # to glibc: what is freed
_numbers = count(1)


class HelperLostError(Exception):
    """The helper could not be started, or ended with a body: the call was not sent."""


class BodyHelper:
    """The helper of one proxy; the first large body starts it, and one that has ended again.

    It ends when its pipe is closed, so also with a proxy that is killed.
    """

    def __init__(self) -> None:
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have no process yet."""
        self._lock = Lock()
        self._process: Any = None
        self._dropped: deque[int] = deque()

    def ask(self, task: "tuple[Any, ...]", content: bytes = b"") -> tuple[Any, bytes]:
        """Return what the helper answers: a value, and bytes.

        It blocks this thread alone. Raises the error of the task, and `HelperLostError`.
        """
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                self._tell_dropped()
                _send(self._process.stdin, task, content)
                value, size = _receive(self._process.stdout)
                data = _exactly(self._process.stdout, size)
            except Exception as error:
                self._end()
                raise HelperLostError("the helper for large bodies ended") from error
        if isinstance(value, Exception):
            raise value
        return value, data

    def drop(self, number: int) -> None:
        """Have a body dropped, now or with the next task; never waits."""
        self._dropped.append(number)
        if self._lock.acquire(blocking=False):
            try:
                if self._process is not None:
                    self._tell_dropped()
            except OSError:
                self._end()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the process; a later body starts another one."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _PROGRAM.format(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _GIVES_BACK,
            start_new_session=True,  # a terminal's signals are for the proxy
        )
        HELPERS.add(self._process.pid)

    def _tell_dropped(self) -> None:
        while self._dropped:
            _send(self._process.stdin, self._dropped.popleft())

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:
                HELPERS.discard(process.pid)


class HelpedBody(WireBody):
    """A request's body, which a helper decodes and writes if it is large.

    Of a call that is sent `as_asked` the tools are a part of the prompt's size.
    """

    def __init__(self, helper: BodyHelper, as_asked: bool, *body: Any) -> None:
        super().__init__(*body)
        self._helper = helper
        self._task = (self._form, self._content_type, as_asked)
        self._number = next(_numbers) if len(self._content) > HELPED else 0

    def read(self) -> LlmRequest:
        """Return the request that the body makes, as `WireBody` does; raises `HelperLostError`."""
        if not self._number:
            return super().read()
        request: LlmRequest = self._helper.ask((self._number, None, *self._task), self._content)[0]
        return request

    def write(self, admitted: Admitted, request: LlmRequest) -> bytes:
        """Return what to send, as `WireBody` does; raises `HelperLostError`."""
        if not self._number:
            return super().write(admitted, request)
        task = (self._number, admitted, *self._task)
        self._number = 0
        is_known, new = self._helper.ask(task)
        if not is_known:
            _, new = self._helper.ask(task, self._content)
        return new or self._content

    def __del__(self) -> None:
        """Drop what the helper keeps of a call that is not sent."""
        if self._number:
            self._helper.drop(self._number)


class _KeptBody(WireBody):
    """A body in the helper; what it writes is empty for one whose bytes stay the same."""

    def __init__(self, content: Any, form: WireFormat, content_type: str, as_asked: bool) -> None:
        super().__init__(form, content if form.known else bytes(content), content_type)
        self.request = self.read()
        self._content = b""  # the proxy has it
        if as_asked:
            self.request.count_tools()


def serve() -> None:
    """Do what comes through standard input until it ends: what the process runs."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the proxy's end is its end
        signal.signal(number, signal.SIG_IGN)
    kept: dict[int, _KeptBody] = {}
    with suppress(EOFError, BrokenPipeError):
        while True:
            _serve_one(kept)
    os._exit(0)


def _serve_one(kept: dict[int, _KeptBody]) -> None:
    pipe: Any = sys.stdin.buffer
    task, size = _receive(pipe)
    if isinstance(task, int):
        kept.pop(task, None)
        return
    content = bytearray(size)  # which is emptied once it is read
    if pipe.readinto(content) < size:
        raise EOFError
    try:
        value, data = _done(kept, content, *task)
    except Exception as error:  # noqa: BLE001 - raised where the task was given
        value, data = error, b""
    _send(sys.stdout.buffer, value, data)


def _done(
    kept: dict[int, _KeptBody], content: Any, number: int, admitted: Any, *form: Any
) -> tuple[Any, bytes]:
    """Return the request of a body; of an admitted one whether it is known, and what to send."""
    if number not in kept and not content:
        return False, b""
    body = kept.pop(number, None) or _KeptBody(content, *form)
    if admitted is not None:
        return True, body.write(admitted, body.request)
    kept[number] = body
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
    return body.request, b""


def _send(pipe: BinaryIO, value: Any, content: bytes = b"") -> None:
    data = pickle.dumps(value)
    pipe.write(pack(_SIZES, len(data), len(content)) + data)
    pipe.write(content)
    pipe.flush()


def _receive(pipe: BinaryIO) -> tuple[Any, int]:
    """Return a value, and how many bytes follow it."""
    size, rest = unpack(_SIZES, _exactly(pipe, calcsize(_SIZES)))
    return pickle.loads(_exactly(pipe, size)), rest  # noqa: S301 - our own


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
