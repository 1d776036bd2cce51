"""Count a streamed answer while it comes."""

from budget_core.checks import check_limit
from budget_core.errors import BudgetError
from budget_core.usage import MISSING, charge_for, plain_total
from budget_core.usage_estimate import bytes_in, estimate_tokens, estimated_report, tokens_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core._types import Messages, Tools


class EnoughError(BudgetError):
    """An answer went on past its limit, which its provider seems to ignore."""


class Received:
    """What has come of one call's answer so far: an `on_delta` that counts what it hands on.

    `pieces` is the text as it came, `usage` the provider's last report, `None` until one came.
    The first piece past `limit` is counted, not handed on, and raises `EnoughError`: each piece is
    at least a token.
    """

    def __init__(
        self, on_delta: "Callable[[str], Awaitable[None]] | None" = None, limit: int | None = None
    ) -> None:
        self.pieces: list[str] = []
        self.usage: Any = None
        self._on_delta = on_delta
        self._limit = check_limit("limit", limit)
        self._counted = self._bytes = 0

    async def __call__(self, text: str) -> None:
        """Take in a piece of text."""
        if text and isinstance(text, str):
            self.pieces.append(text)
            self.count(text)
        if self._on_delta is not None:
            await self._on_delta(text)

    def count(self, text: str) -> None:
        """Count a piece of the answer that is not kept here; an empty one is none."""
        if not text:
            return
        self._counted += 1
        self._bytes += bytes_in(text)
        if self._limit is not None and self._counted > self._limit:
            raise EnoughError(f"the answer is longer than its limit of {self._limit} tokens")

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        """An estimate of the tokens so far: the pieces, or their bytes by four if that is more."""
        return max(self._counted, tokens_in(self._bytes))

    def report(self, messages: "Messages", tools: "Tools | None" = None) -> "Any":
        """Return the provider's report, else an estimated one, or `None` where nothing came.

        An estimate is marked by `"estimated": True`; `messages` and `tools` are what was asked.
        """
        if not self._counted or not _is_missing(self.usage):
            return self.usage
        return estimated_report(estimate_tokens(messages, tools), self.tokens)

    def settled(self, response: "Any", messages: "Messages", tools: "Tools | None") -> "Any":
        """Return the usage of a call that is over, `response` being `None` where it failed.

        It is the response's own unless that is missing, then `report`. Never raises.
        """
        try:
            usage = response.usage
        except Exception:  # noqa: BLE001 - a response may be anything, or not there
            usage = None
        return self.report(messages, tools) if _is_missing(usage) else usage


def as_received(on_delta: "Callable[[str], Awaitable[None]]") -> Received:
    """Return `on_delta` itself where it is one that counts, else one around it.

    So an answer is counted and kept once, however many wrappers it passes.
    """
    return on_delta if isinstance(on_delta, Received) else Received(on_delta)


def _is_missing(usage: "Any") -> bool:
    return plain_total(usage) < 0 and charge_for(usage, 0)[1] == MISSING
