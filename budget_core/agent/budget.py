"""What a run of an agent is allowed."""

from budget_core.checks import check_limit, check_text
from budget_core.config import check_share
from budget_core.durations import in_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self

    from budget_core._types import Dollars


class Budget:
    """What a run may use: a user's message to its final answer, tools and sub-agents included.

    - `max_turns`: LLM calls; a turn here is one LLM round trip.
    - `max_tokens`: tokens of all calls, prompts and completions.
    - `max_tokens_per_turn`: completion tokens of one call, passed on to the provider.
    - `timeout`: seconds, waiting for models, tools and approvals included.
    - `max_tool_calls`, `max_reflections`: of all tools together, and on drafts of the answer.
    - `max_calls`: calls of single tools, by the tool's name.
    - `max_usd`: money, in dollars such as `"0.50"` or 0.5, which is kept as `max_nano_usd`, in
      billionths of a dollar; a model without a known price is refused.
    - `max_context_tokens`: tokens of one prompt, as far as they are counted beforehand.
    - `last_call`: the share of tokens, money and time that is kept back, with one LLM call where
      there are two or more, so that a run at its limit can still answer; `None` keeps nothing.

    `None` is unlimited, `0` is nothing. A budget never changes: an `Envelope` counts what is used
    of it. Raises `ValueError` naming what is wrong.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython

    def __init__(
        self,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_tokens_per_turn: int | None = None,
        timeout: float | None = None,
        max_tool_calls: int | None = None,
        max_reflections: int | None = None,
        max_calls: "dict[str, int] | None" = None,
        max_nano_usd: int | None = None,
        max_context_tokens: int | None = None,
        last_call: float | None = 0.1,
        max_usd: "Dollars | None" = None,
    ) -> None:
        self.max_turns = check_limit("max_turns", max_turns)
        self.max_tokens = check_limit("max_tokens", max_tokens)
        self.max_tokens_per_turn = check_limit("max_tokens_per_turn", max_tokens_per_turn)
        if timeout is not None and in_ms("timeout", timeout) is None:
            timeout = None
        self.timeout = timeout
        self.max_tool_calls = check_limit("max_tool_calls", max_tool_calls)
        self.max_reflections = check_limit("max_reflections", max_reflections)
        if max_calls is not None and not isinstance(max_calls, dict):
            raise ValueError(f"max_calls must be a dict, not {max_calls!r}")
        self.max_calls = dict(max_calls or {})
        for name in self.max_calls:
            check_text("max_calls", name)
            check_limit(f"max_calls[{name!r}]", self.max_calls[name])
        if max_usd is not None:
            from budget_core.money import in_nano  # loaded for the first limit in dollars

            max_nano_usd = in_nano("max_usd", max_usd)
        self.max_nano_usd = check_limit("max_nano_usd", max_nano_usd)
        self.max_context_tokens = check_limit("max_context_tokens", max_context_tokens)
        self.last_call = check_share("last_call", last_call, 1, True)

    def replace(self, **changes: "Any") -> "Self":
        """Return a copy with some limits changed, checked like any other."""
        return type(self)(**dict(self.__dict__, **changes))

    def is_unlimited(self) -> bool:
        """Tell whether nothing ends a run but the model's answer."""
        caps = (self.max_turns, self.max_tokens, self.timeout, self.max_nano_usd)
        return caps == (None, None, None, None)
