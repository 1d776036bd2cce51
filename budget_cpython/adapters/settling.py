"""The end of a framework's call: its settlement, its pieces and its usage report."""

import sys
from asyncio import CancelledError
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import (
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from typing import Any, Final

from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.provider_errors import as_settled, budget_error
from budget_cpython.context.deadline import Deadline

Around = Callable[[], AbstractContextManager[None]]

_END: Final = object()  # of a stream


@contextmanager
def settled_blocking(call: BudgetedCall) -> Iterator[None]:
    """Settle a call that fails, is interrupted, or is left before its end."""
    before = sys.exception()
    try:
        yield
    except Exception as error:
        call.fail_blocking(as_settled(error, before))
        _raise_refusal(call, error, before)
        raise
    except BaseException:
        call.abandon()
        raise


@asynccontextmanager
async def settled(call: BudgetedCall) -> AsyncIterator[None]:
    """Settle a call that fails, is cancelled, or is left before its end."""
    before = sys.exception()
    try:
        yield
    except Exception as error:
        await call.fail(as_settled(error, before))
        _raise_refusal(call, error, before)
        raise
    except CancelledError as error:
        await call.fail(error)
        raise
    except BaseException:
        call.abandon()
        raise


def _raise_refusal(call: BudgetedCall, error: Exception, before: Any) -> None:
    """Raise the budget's error where it refused the attempt after one that broke off."""
    refusal = budget_error(error, before) if call.broke_off else None
    if refusal is not None and refusal is not error:
        raise refusal from error


@contextmanager
def answering_blocking(call: BudgetedCall) -> Iterator[None]:
    """Have a call answered, and settle it if that fails."""
    with settled_blocking(call), call.answering():
        yield


@asynccontextmanager
async def answering(call: BudgetedCall) -> AsyncIterator[None]:
    """Have a call answered before the current deadline, and settle it if that fails.

    Raises `DeadlineExceeded`.
    """
    async with settled(call), Deadline.current().scope():
        with call.answering():
            yield


def pieces_blocking(around: Around, pieces: Any) -> Generator[Any, None, None]:
    """Yield the pieces of an answer, each of which comes in a `with` of its own, and close it."""
    with closing(pieces):
        while True:
            with around():  # not while its reader has a piece
                piece = next(pieces, _END)
            if piece is _END:
                return
            yield piece


async def pieces_of(around: Around, pieces: Any) -> AsyncGenerator[Any, None]:
    """Yield the pieces of an answer as `pieces_blocking`; each comes before the current deadline.

    Raises `DeadlineExceeded`.
    """
    deadline = Deadline.current()
    async with aclosing(pieces) if hasattr(pieces, "aclose") else nullcontext():
        while True:
            async with deadline.scope():
                with around():
                    piece = await anext(pieces, _END)
            if piece is _END:
                return
            yield piece


def report_of(
    prompt: Any, answer: Any, cached: Any = 0, written: Any = 0, reasoning: Any = 0
) -> dict[str, Any]:
    """Return tokens as a usage report, an empty one for the zeros that stand for no report.

    `cached` tokens and those `written` to a cache are part of the prompt, `reasoning` of the
    answer.
    """
    if not prompt and not answer:
        return {}
    return {
        "prompt_tokens": prompt or 0,
        "completion_tokens": answer or 0,
        "total_tokens": (prompt or 0) + (answer or 0),
        "prompt_tokens_details": {"cached_tokens": cached or 0, "cache_write_tokens": written or 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning or 0},
    }
