"""The request of a model call, and what of it is admitted, in no vendor's shape."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from budget_core.usage_estimate import estimate_tokens, message_bytes, tokens_in
from budget_cpython.adapters.wire.steps import in_steps
from budget_cpython.prices.candidate_models import CandidateModels


@dataclass(frozen=True)
class LlmRequest:
    """The request of one model call.

    - `messages`: dicts with a `role` and a `content`, a text or parts with a `text`, from which the
      prompt is estimated; `tools`: dicts with a `name`, and the vendor's own object as `native`.
    - `max_tokens`: the tokens of all its answers together; `None` is not limited, `0` no answer.
    - `stream`: whether its answer comes in pieces; `service_tier`: the tier that it is billed at.
    - `candidates`: which models may answer.
    - `identity`: what equal requests have in common; `None` for model, messages and tools.
    """

    model: str
    messages: list[Any]
    tools: list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    stream: bool = False
    service_tier: str | None = None
    candidates: CandidateModels = field(default_factory=CandidateModels)
    identity: Any = None

    def without_tools(self) -> tuple[list[Any], None]:
        """Return messages that count as these do with the tools, and no tools to withdraw."""
        if not self.tools:
            return self.messages, None
        counted = {"name": "", "arguments": {"tools": self.tools}}
        return [*self.messages, {"role": "system", "tool_calls": [{"function": counted}]}], None

    def counted(self, least: int, hidden: int) -> "LlmRequest":
        """Return the request with the tokens of its prompt in place of the messages.

        A long prompt takes a while to count. `hidden` tokens are in no message. Prompt and tools
        are at least `least` tokens: fields that nothing here reads count, too.
        """
        mark = estimate_tokens([{}])
        size = sum(map(message_bytes, in_steps(_in_parts(self.messages))))
        read = tokens_in(size) + mark * len(self.messages) + hidden
        tokens = max(read, least - estimate_tokens([], self.tools)) - mark
        return replace(self, messages=[{"role": "user", "content": [{"tokens": tokens}]}])


def _in_parts(messages: list[Any]) -> Iterator[Any]:
    """Yield messages, and each part of a long content as a message."""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            yield {**message, "content": None}
            yield from ({"content": [part]} for part in content)
        else:
            yield message


@dataclass(frozen=True)
class Admitted:
    """The fields of an admitted call as it is sent.

    - `model`: the one that was asked for, or the fallback.
    - `notices`: texts to append to this one call as the user's last messages, never to be kept.
    - `tools`: those that it still offers; `None` offers none.
    - `max_tokens`: the most tokens of all its answers together; `None` limits nothing.
    """

    model: str
    notices: tuple[str, ...]
    tools: list[dict[str, Any]] | None
    max_tokens: int | None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The notices as messages of the user."""
        return [{"role": "user", "content": notice} for notice in self.notices]

    @property
    def natives(self) -> list[Any]:
        """The vendor's own objects of the tools."""
        return [tool["native"] for tool in self.tools or ()]

    def withdraws_from(self, request: LlmRequest) -> bool:
        """Tell whether tools that were asked for are withdrawn."""
        return len(self.tools or ()) < len(request.tools or ())
