"""Stop a program that sends the same request again and again."""

from budget_core.checks import NoLock
from budget_core.config import Enforcement
from budget_core.digests import digest_of
from budget_core.errors import BudgetError, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Lock
    from budget_core.call import Call
    from budget_core.settlement import Settlement


class RepeatedCallError(BudgetError):
    """A call is one of `repeats` in a row with the same model, messages and tools.

    Those before it were answered; this one was not sent.
    """

    sent = False

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        super().__init__(
            f"call {repeats} in a row with the same model, messages and tools: those before it "
            f"were answered, and repeats={repeats} refuses this one. Send something else, or allow "
            "more, or leave repeats out"
        )


class RepeatStop:
    """Refuses the last of `repeats` calls in a row with the same model, messages and tools.

    A call counts once it is answered, so attempts that failed do not. One with another request
    begins a new row. A digest of the last request is kept in memory, and none of its text. It is an
    account of a `Call` whose option `identity` stands for its request.

    Raises `ValueError` unless `repeats` is 2 or more.
    """

    def __init__(self, repeats: int, lock: "Lock | None" = None) -> None:
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 2:
            refuse("repeats", "a whole number >= 2", repeats)
        self.repeats = repeats
        self._lock = lock or NoLock()
        self._last: bytes | None = None
        self._answered = 0  # in a row, the last one included

    def admit(self, *request: "Any") -> bytes:
        """Return the digest of a request; raise `RepeatedCallError` if it was sent too often."""
        found = digest_of(request)
        with self._lock:
            if found == self._last and self._answered >= self.repeats - 1:
                raise RepeatedCallError(self.repeats)
        return found

    def count(self, request: bytes, response: "Any") -> None:
        """Count a request, by its digest, if it was answered by a model and not by a budget."""
        if response is None or getattr(response, "cut_off_by", None):
            return
        with self._lock:
            self._answered = self._answered + 1 if request == self._last else 1
            self._last = request

    async def hold(self, call: "Call") -> bytes:
        """Admit a call by its option `identity`; return the digest of that."""
        return self.admit(call.options["identity"])

    async def settle(self, request: bytes, outcome: "Settlement") -> None:
        """Count a call if it was answered."""
        if outcome.sent:
            self.count(request, outcome.response)


def stop_of(repeats: int, enforcement: str, lock: "Lock | None" = None) -> RepeatStop | None:
    """Return the stop of an account; `None` where its limits refuse nothing either."""
    stop = RepeatStop(repeats, lock)
    return stop if enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK) else None


def watch(wrapper: "Any", repeats: int) -> None:
    """Have a wrapper's `chat` refuse repeats, where it refuses anything.

    Its method is replaced, so that wrappers without this pay nothing for it.
    """
    stop, answer = RepeatStop(repeats), wrapper.chat

    async def chat(
        messages: "Any", tools: "Any" = None, model: "Any" = None, *rest: "Any", **options: "Any"
    ) -> "Any":
        if wrapper.enforcement not in (Enforcement.CUTOFF, Enforcement.FALLBACK):
            return await answer(messages, tools, model, *rest, **options)
        request = stop.admit(model, messages, tools)
        response = await answer(messages, tools, model, *rest, **options)
        stop.count(request, response)
        return response

    wrapper.chat = chat
