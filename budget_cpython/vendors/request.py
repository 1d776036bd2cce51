"""The request of a model call, and what of it is admitted, in no vendor's shape."""

from dataclasses import dataclass
from typing import Any

from budget_core.errors import BudgetError
from budget_core.thresholds import as_messages
from budget_core.usage_estimate import estimate_tokens, tokens_in

_A_TOKEN = 4  # bytes
_A_MESSAGE = 4  # tokens
_MOST_TOKENS = (1 << 30) - 1


class UnreadableRequestError(BudgetError):
    """A request to a model that cannot be read for sure, so no budget can be kept for it.

    Its body is not a JSON object, is too deep or too large, or has a key in another case, such as
    `Max_Tokens`, which some servers read; or it is signed, so that it cannot be changed.
    """


class TooLittleLeftError(BudgetError):
    """A budget leaves less for an answer than the API takes."""

    sent = False


@dataclass
class LlmRequest:
    """The request of one model call.

    - `messages`: dicts with a `role` and a `content`, a text or parts with a `text`, from which the
      prompt is estimated; of a vendor's body their size alone, see `counted`.
    - `tools`: dicts with a `name`, and the vendor's own object as `native`; `is_free`: whether the
      model chooses among them; `is_structured`: whether the answer has to follow a schema.
    - `max_tokens`: the tokens of all its `answers` together; `None` is not limited, `0` no answer.
    - `stream`: whether its answer comes in pieces; `wants_usage`: whether the caller asked for its
      last chunk.
    - `service_tier`, `speed`, `region`: how and where it is asked to run; `None` is the standard.
    - `attached`: the tokens of images, sounds and files, which are part of the prompt.
    - `hosted`: the vendor's own tools that may be billed, each with the most calls of it.
    - `vendor`: the provider that it is sent to, by its id in genai-prices; `models`: all that it
      names, where any may answer; `deployment`: the name of one in its path; `deployed_at`: the
      server, where it names a deployment and no model.
    - `units`: what is billed beside tokens, by genai-prices' names, as `input_characters`.
    - `identity`: what equal requests have in common; `None` for model, messages and tools.
    """

    model: str
    messages: list[Any]
    tools: list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    stream: bool = False
    service_tier: str | None = None
    answers: int = 1
    is_free: bool = True
    is_structured: bool = False
    wants_usage: bool = False
    speed: str | None = None
    region: str | None = None
    attached: int = 0
    hosted: tuple[tuple[str, int | None], ...] = ()
    vendor: str | None = None
    models: tuple[str, ...] = ()
    deployment: str | None = None
    deployed_at: str | None = None
    units: tuple[tuple[str, int], ...] = ()
    identity: Any = None

    def without_tools(self) -> tuple[list[Any], None]:
        """Return messages that count as these do with the tools, and no tools to withdraw."""
        if not self.tools:
            return self.messages, None
        tools = {"name": "", "arguments": {"tools": self.tools}}
        return [*self.messages, {"role": "system", "tool_calls": [{"function": tools}]}], None

    def count_tools(self) -> None:
        """Have the tools count as a part of the prompt; none is left to be withdrawn."""
        if self.tools:
            messages, self.tools = self.without_tools()
            self.messages = counted(_A_TOKEN * (estimate_tokens(messages) - _A_MESSAGE))

    def raise_to(self, size: int) -> None:
        """Have prompt and tools count at least as `size` bytes of text, and what is attached."""
        least = tokens_in(size) + self.attached - estimate_tokens([], self.tools)
        if least > estimate_tokens(self.messages):
            self.messages = counted(_A_TOKEN * (least - _A_MESSAGE))


def counted(size: int, messages: int = 1, attached: int = 0) -> list[Any]:
    """Return a message that an estimate counts as so many messages, of `size` bytes of text.

    `attached` tokens count as one message more.
    """
    messages += attached > 0
    if not messages:
        return []
    size += _A_TOKEN * (attached + _A_MESSAGE * (messages - 1))
    tokens = min(size // _A_TOKEN, _MOST_TOKENS)
    return [{"role": "user", "content": [{"text": " " * (size % _A_TOKEN), "tokens": tokens}]}]


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
        return as_messages(self.notices)

    @property
    def natives(self) -> list[Any]:
        """The vendor's own objects of the tools."""
        return [tool["native"] for tool in self.tools or ()]

    def withdraws_from(self, request: LlmRequest) -> bool:
        """Tell whether tools that were asked for are withdrawn."""
        return len(self.tools or ()) < len(request.tools or ())
