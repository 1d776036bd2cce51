"""A streamed answer, counted while it comes and after it was cut."""

from budget_core.checks import check_limit
from budget_core.errors import BudgetError
from budget_core.provider import ChatResponse, usage_of
from budget_core.usage import Usage, read_usage
from budget_core.usage_estimate import (
    bytes_in,
    estimate_tokens,
    estimated,
    tokens_in,
)

_SPARE = 64  # characters: a single token may be long

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core._types import Messages, Tools


class AnswerTooLongError(BudgetError):
    """An answer went on past its limit, which its provider seems to ignore."""


class StreamedAnswer:
    """An `on_delta` that keeps and counts the pieces of one call's answer, and passes them on.

    `pieces` is the text as it came, `usage` the provider's last report, `None` until one came,
    `cut` whether it went past its limit.

    A piece past `limit` tokens is counted, not passed on, and raises `AnswerTooLongError`. Tokens
    are what the provider reports meanwhile. Where it reports nothing, each piece is at least one,
    and so are 6 characters or 12 bytes of text, with room for 64 more.
    """

    def __init__(
        self, on_delta: "Callable[[str], Awaitable[None]] | None" = None, limit: int | None = None
    ) -> None:
        self.pieces: list[str] = []
        self.usage: Any = None
        self.cut = False
        self._on_delta = on_delta
        self._limit = check_limit("limit", limit)
        self._counted = self._chars = self._bytes = 0

    async def __call__(self, text: str) -> None:
        """Keep, count and pass on a piece of text."""
        if text and isinstance(text, str):
            self.pieces.append(text)
            self.count(text)
        if self._on_delta is not None:
            await self._on_delta(text)

    def count(self, text: str) -> None:
        """Count a piece of the answer that is not kept here; an empty one counts nothing."""
        if not text:
            return
        self._counted += 1
        self._chars += len(text)
        self._bytes += bytes_in(text)
        limit = self._limit
        if limit is not None:
            least = max((self._chars - _SPARE) // 6, (self._bytes - _SPARE) // 12, self._counted)
            if least > limit or (self.usage and (read_usage(self.usage).output or 0) > limit):
                self.cut = True
                raise AnswerTooLongError(f"the answer is longer than its limit of {limit} tokens")

    def cut_answer(self, error: BaseException) -> "ChatResponse | None":
        """Return the part that came as the answer, if it was cut at its limit; else `None`."""
        if not self.cut or not isinstance(error, Exception):
            return None
        return ChatResponse(self.text, finish_reason="length")

    def lower(self, limit: int | None) -> None:
        """Have the answer end at so many tokens, if its limit is higher; `None` changes nothing."""
        if limit is not None and (self._limit is None or limit < self._limit):
            self._limit = limit

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        """An estimate of the tokens so far: the pieces, or their bytes by four if that is more."""
        return max(self._counted, tokens_in(self._bytes))

    def usage_of(self, response: "Any", messages: "Messages", tools: "Tools | None") -> Usage:
        """Return the usage of a call that is over; `response` is `None` where it failed.

        It is the response's own report, else the last one that came with the stream, else an
        estimate of what was asked and of what came, if anything came. Never raises.
        """
        usage = usage_of(response)
        if usage.status == Usage.MISSING:
            usage = read_usage(self.usage)
        if usage.status == Usage.MISSING and self._counted:
            usage = estimated(estimate_tokens(messages, tools), self.tokens)
        return usage


def as_streamed(on_delta: "Any", limit: int | None = None) -> "Any":
    """Return `on_delta` itself where it is `None` or a `StreamedAnswer`, else one around it.

    So an answer is counted and kept once, however many wrappers it passes; the lowest `limit` that
    one of them gives ends it.
    """
    if on_delta is None:
        return None
    if not isinstance(on_delta, StreamedAnswer):
        return StreamedAnswer(on_delta, limit)
    on_delta.lower(limit)
    return on_delta
