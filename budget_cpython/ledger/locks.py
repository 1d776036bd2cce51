"""Let one thread, or one asyncio task, at a time ask a ledger."""

import asyncio
from threading import Lock


class ThreadGate:
    """A thread's lock for coroutines that are run to their end at once."""

    def __init__(self) -> None:
        self._lock = Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


class TaskGate:
    """An asyncio lock for each event loop: a process may run several, one after the other."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop not in self._locks:
            for other in list(self._locks):
                if other.is_closed():
                    del self._locks[other]
            self._locks[loop] = asyncio.Lock()
        await self._locks[loop].acquire()

    async def __aexit__(self, *error: object) -> None:
        self._locks[asyncio.get_running_loop()].release()
