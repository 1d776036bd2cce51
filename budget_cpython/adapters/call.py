"""One model call of an SDK: admitted before it is sent, settled when its answer is there."""

import asyncio
import atexit
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Thread
from typing import Any
from weakref import WeakSet

import budget_core.usage_reports  # noqa: F401 - a forgotten call is collected anywhere
from budget_core.ledger.limit import MOST
from budget_core.provider import ChatResponse
from budget_core.settlement import is_closing
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer
from budget_cpython.adapters.current import current_layers
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.request import Admitted, Request
from budget_cpython.deadline import Deadline

_OPEN: "WeakSet[BudgetedCall]" = WeakSet()  # admitted, and not settled yet
_ANSWERED: ContextVar[tuple[Layer, ...]] = ContextVar("microbudget.answered", default=())


class BudgetedCall:
    """One call that draws on layers: those of the blocks around it, then its client's `own`.

    `begin` admits it, and one of `end`, `fail` and `abandon` settles it; what comes after does
    nothing. The blocking forms need no event loop, and work inside one.

    The layers are the core's wrapped providers, whose chain of coroutines stands still between the
    two: to them, the model is answering.
    """

    def __init__(self, own: Sequence[Layer], request: Request) -> None:
        self.request = request
        self._around = [*current_layers(), *own]
        self._limit = _limit_of(request, self._around)
        self._layers = distinct(self._around, _ANSWERED.get())
        self._streamed = StreamedAnswer()
        self._admitted: Admitted | None = None
        self.charge: tuple[Any, Any] | None = None

    def begin_blocking(self) -> Admitted:
        """Admit the call, and return what to send.

        Raises `BudgetExceededError` or another error of the budget, after which nothing is held,
        and `DeadlineExceeded` where the current deadline has passed.
        """
        chain = self._prepare(True)
        _finish(_Step(self, chain))
        return self._admit(chain)

    async def begin(self) -> Admitted:
        """Admit the call as `begin_blocking` does; the event loop goes on meanwhile."""
        chain = self._prepare(False)
        await _Step(self, chain)
        return self._admit(chain)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Return a `with` for the calls that answer this one, such as those of its model's client.

        They draw only on layers that this call does not draw on.
        """
        before = _ANSWERED.set((*_ANSWERED.get(), *self._layers))
        try:
            yield
        finally:
            _ANSWERED.reset(before)

    def on_text(self, text: str) -> None:
        """Count a piece of a streamed answer: text, reasoning or the arguments of a tool."""
        with suppress(AnswerTooLongError):  # it is counted all the same
            self._streamed.count(text)

    @property
    def report(self) -> Any:
        """The provider's last report of what a streamed answer used; `None` before the first."""
        return self._streamed.usage

    @report.setter
    def report(self, usage: Any) -> None:
        self._streamed.usage = usage

    def end_blocking(self, response: ChatResponse) -> None:
        """Record what an answered call used: its `usage`, or the last report of its stream."""
        chain = self._take()
        if chain is not None:
            _finish(_Step(self, chain, response))

    async def end(self, response: ChatResponse) -> None:
        """Record what an answered call used, as `end_blocking` does."""
        chain = self._take()
        if chain is not None:
            await _Step(self, chain, response)

    def fail_blocking(self, error: BaseException) -> None:
        """Settle a call that failed.

        It cost nothing if the error has `sent = False`; else its outcome is unknown, and it counts
        as what was held, or as what came of its answer if that is more.
        """
        chain = self._take()
        if chain is not None:
            with suppress(type(error)):
                _finish(_Step(self, chain, error=error))

    async def fail(self, error: BaseException) -> None:
        """Settle a call that failed, as `fail_blocking` does."""
        chain = self._take()
        if chain is not None:
            with suppress(type(error)):
                await _Step(self, chain, error=error)

    def abandon(self) -> None:
        """Settle a call whose answer is not awaited any longer; it counts as one that failed.

        Nothing is awaited: the ledger is told at once, by a task of the event loop that runs here,
        or, where a generator is closed, by a thread: it may hold a lock of the ledger.
        """
        chain = self._take()
        if chain is None:
            return
        chain.close()
        if is_closing() and not _has_loop():
            with suppress(RuntimeError):  # the interpreter ends, and delivers what is owed
                Thread(target=_deliver, args=(self._layers,), daemon=True).start()
        elif not _has_loop():
            _deliver(self._layers)

    @property
    def model(self) -> str:
        """The model that the call is sent to: the one that was asked for, or the fallback."""
        return self.request.model if self._admitted is None else self._admitted.model

    def note_charge(self, layer: Layer, hold: Any, outcome: Any) -> None:
        """Count a layer's charge on it, and on the layers around whose accounts count it, too.

        The first one is the innermost: `charge` is its hold and the outcome.
        """
        self.charge = self.charge or (hold, outcome)
        for around in {*self._around, layer}:
            if _counts(around, layer):
                around.calls.add(hold, outcome)

    def _prepare(self, is_blocking: bool) -> Any:
        Deadline.current().check_or_raise()
        self._wrappers = iter([layer.wrapper(is_blocking) for layer in self._layers])
        request = self.request
        options = {"on_delta": self._streamed} if request.stream else {}
        return self.next_answer(
            messages=request.messages,
            tools=request.tools,
            model=request.model,
            max_tokens=self._limit,
            service_tier=request.service_tier,
            answerers=request.answerers,
            **options,
        )

    async def next_answer(self, messages: Any, tools: Any, model: Any, **options: Any) -> Any:
        """Return the answer of the next layer; below the last one, wait for the model's."""
        wrapper = next(self._wrappers, None)
        if wrapper is not None:
            try:
                return await wrapper.chat(messages, tools, model, call=self, **options)
            except BaseException as error:
                if self._admitted is None:  # it cost the layers around nothing
                    error.sent = False  # type: ignore[attr-defined]
                raise
        said = [message["content"] for message in messages[len(self.request.messages) :]]
        limit = options.get("max_tokens")
        self._admitted = Admitted(model, tuple(said), tools, limit)
        return await _ModelsAnswer(self)

    def _admit(self, chain: Any) -> Admitted:
        if self._admitted is None:
            raise RuntimeError("a layer answered in the model's place")
        self._chain = chain
        _OPEN.add(self)
        return self._admitted

    def _take(self) -> Any:
        """Return the chain to the first that settles the call, of several threads too."""
        _OPEN.discard(self)
        return vars(self).pop("_chain", None)


def _limit_of(request: Request, layers: Sequence[Layer]) -> int | None:
    """Return the limit that a call's answer has: the caller's, else the least of its layers'."""
    if request.max_tokens is not None:
        return min(MOST, request.max_tokens)
    return min((one.max_tokens for one in layers if one.max_tokens is not None), default=None)


def _has_loop() -> bool:
    """Tell whether an event loop runs in this thread."""
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _deliver(layers: Sequence[Layer]) -> None:
    """Deliver the outboxes of ledgers that can be asked without a loop."""
    for layer in layers:
        if isinstance(layer, Layer):
            layer.deliver()


class _ModelsAnswer:
    """What the last layer awaits: it yields the call to what runs the chain."""

    def __init__(self, call: BudgetedCall) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._call)


class _Step:
    """Runs a chain until it waits for the model's answer, or ends; to be awaited."""

    def __init__(
        self, call: BudgetedCall, chain: Any, value: Any = None, error: BaseException | None = None
    ) -> None:
        self._call = call
        self._chain = chain
        self._value = value
        self._error = error

    def __await__(self) -> Generator[Any, Any, None]:
        value, error = self._value, self._error
        while True:
            try:
                waited = self._chain.send(value) if error is None else self._chain.throw(error)
            except StopIteration:
                return
            if waited is self._call:
                return
            value = error = None
            try:
                value = yield waited
            except BaseException as raised:  # noqa: BLE001 - a cancellation is the chain's, too
                error = raised


def _finish(step: _Step) -> None:
    """Run a step without an event loop."""
    for _ in step.__await__():
        raise RuntimeError("a blocking call cannot wait for an asyncio ledger")


def layers_to_draw_on() -> list[Layer]:
    """Return the layers of the blocks around that do not count a call here yet."""
    return distinct([*current_layers()], _ANSWERED.get())


def distinct(layers: list[Layer], drawn_on: Sequence[Layer] = ()) -> list[Layer]:
    """Return the layers that a call has to draw on, so that each account counts it once.

    An account also counts what is drawn on accounts below it. So layers are left out whose accounts
    count the call by another of `layers`, or by one that is already `drawn_on`, but for strict
    layers where that one observes. An account where calls are only observed is enforced as one
    above it whose layer is strict.
    """
    kept: list[Layer] = []
    for layer in layers:
        same = [other for other in layers if other.ledger is layer.ledger]
        above = any(other.account.startswith(layer.account + "/") for other in same)
        done = [*kept, *(other for other in drawn_on if other.is_strict or not layer.is_strict)]
        if not above and not any(_counts(layer, other) for other in done):
            kept.append(layer if len(same) == 1 else _enforced(layer, same))
    return kept


def _counts(layer: Layer, other: Layer) -> bool:
    """Tell whether a layer's account counts what is drawn on another one's."""
    along = (other.account + "/").startswith(layer.account + "/")
    return along and other.ledger is layer.ledger


def _enforced(layer: Layer, same: list[Layer]) -> Layer:
    """Return a layer, or where it only observes, its account as a strict layer enforces it."""
    along = [one for one in same if _counts(one, layer)]
    strict = next((one for one in [layer, *along] if one.is_strict), layer)
    return strict.at(layer.account)


@atexit.register
def _abandon_open() -> None:
    """Settle what is open while the program can still do it, before the ledgers are closed."""
    for call in list(_OPEN):
        with suppress(ValueError):  # a daemon thread is settling it
            call.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.clear)  # its parent settles them
