"""The streams of httpx and httpx2 through which the answers of models pass."""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache
from typing import Any


class BrokenStreamError(Exception):
    """A stream that ended before its last event, so that not all of its usage is known."""


@lru_cache
def watched_streams(httpx: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the classes of streams that an exchange reads: one that blocks, one that awaits."""

    class Watched(httpx.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, exchange: Any) -> None:
            self._inner = inner
            self._exchange = exchange

        def __getattr__(self, name: str) -> Any:  # `elapsed`, which httpx2 asks its stream for
            return getattr(self._inner, name)

        def __iter__(self) -> Iterator[bytes]:
            exchange = self._exchange
            try:
                for data in self._inner:
                    yield from exchange.pass_on(data)
            except GeneratorExit:
                raise  # `close` follows
            except Exception as error:
                exchange.call.fail_blocking(error)
                exchange.raise_if_late(error)
                raise
            except BaseException:
                exchange.call.abandon()
                raise
            rest = exchange.rest()
            if exchange.is_complete:
                exchange.call.end_blocking(exchange.answer())
            elif exchange.is_streamed:
                exchange.call.fail_blocking(BrokenStreamError())
            yield from rest

        def close(self) -> None:
            try:
                if self._exchange.is_complete:
                    self._exchange.call.end_blocking(self._exchange.answer())
                elif self._exchange.is_streamed:
                    self._exchange.call.abandon()
            finally:
                self._inner.close()

    class AsyncWatched(httpx.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, exchange: Any) -> None:
            self._inner = inner
            self._exchange = exchange

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            exchange = self._exchange
            try:
                async for data in self._inner:
                    for passed in exchange.pass_on(data):
                        yield passed
            except GeneratorExit:
                raise
            except (Exception, CancelledError) as error:
                await exchange.call.fail(error)
                exchange.raise_if_late(error)
                raise
            except BaseException:
                exchange.call.abandon()
                raise
            rest = exchange.rest()
            if exchange.is_complete:
                await exchange.call.end(exchange.answer())
            elif exchange.is_streamed:
                await exchange.call.fail(BrokenStreamError())
            for passed in rest:
                yield passed

        async def aclose(self) -> None:
            try:
                if self._exchange.is_complete:
                    await self._exchange.call.end(self._exchange.answer())
                elif self._exchange.is_streamed:
                    await self._exchange.call.fail(BrokenStreamError())
            finally:
                await self._inner.aclose()

    return Watched, AsyncWatched
