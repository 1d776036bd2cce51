"""The streams of httpx and httpx2 through which the answers of models pass."""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache
from typing import Any

from budget_cpython.vendors.body import LARGE


class BrokenStreamError(Exception):
    """A stream that ended before its last event, so that not all of its usage is known."""


@lru_cache
def sent_stream(httpx: Any) -> Callable[[bytes], Any]:
    """Return the class of a request's content that is sent in pieces, and not copied as a whole."""

    class SentInPieces(httpx.ByteStream):  # type: ignore[misc]
        def __init__(self, content: bytes) -> None:
            super().__init__(content)
            self._content = content

        def __iter__(self) -> Iterator[bytes]:
            content = self._content
            for start in range(0, len(content), LARGE):
                yield content[start : start + LARGE]

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self:
                yield piece

    return SentInPieces


@lru_cache
def watched_streams(httpx: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the classes of streams that an attempt reads: one that blocks, one that awaits."""

    class Watched(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, attempt: Any) -> None:
            self._inner = inner
            self._attempt = attempt

        def __getattr__(self, name: str) -> Any:  # `elapsed`, which httpx2 asks its stream for
            return getattr(self._inner, name)

        def __iter__(self) -> Iterator[bytes]:
            attempt = self._attempt
            try:
                for data in self._inner:
                    yield from attempt.pass_on(data)
            except GeneratorExit:
                raise  # `close` follows
            except Exception as error:
                attempt.call.fail_blocking(error)
                attempt.raise_if_late(error)
                raise
            except BaseException:
                attempt.call.abandon()
                raise
            rest = attempt.rest()
            if attempt.is_complete:
                attempt.call.end_blocking(attempt.answer())
            elif attempt.is_streamed:
                attempt.call.fail_blocking(BrokenStreamError())
            yield from rest

        def close(self) -> None:
            try:
                if self._attempt.is_complete:
                    self._attempt.call.end_blocking(self._attempt.answer())
                elif self._attempt.is_streamed:
                    self._attempt.call.abandon()
            finally:
                self._inner.close()

    class AsyncWatched(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, attempt: Any) -> None:
            self._inner = inner
            self._attempt = attempt

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            attempt = self._attempt
            try:
                async for data in self._inner:
                    for passed in attempt.pass_on(data):
                        yield passed
            except GeneratorExit:
                raise
            except (Exception, CancelledError) as error:
                await attempt.call.fail(error)
                attempt.raise_if_late(error)
                raise
            except BaseException:
                attempt.call.abandon()
                raise
            rest = attempt.rest()
            if attempt.is_complete:
                await attempt.call.end(attempt.answer())
            elif attempt.is_streamed:
                await attempt.call.fail(BrokenStreamError())
            for passed in rest:
                yield passed

        async def aclose(self) -> None:
            try:
                if self._attempt.is_complete:
                    await self._attempt.call.end(self._attempt.answer())
                elif self._attempt.is_streamed:
                    await self._attempt.call.fail(BrokenStreamError())
            finally:
                await self._inner.aclose()

    return Watched, AsyncWatched
