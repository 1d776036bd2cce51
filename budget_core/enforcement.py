"""What happens to a call when its budget comes near the edge."""

import sys

from budget_core.config import Enforcement
from budget_core.notices import last_words
from budget_core.provider import ChatResponse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Hook, Messages, Tools, Wrapper


def enforce(
    wrapper: "Wrapper", messages: "Messages", tools: "Tools | None", model: str | None
) -> "tuple[ChatResponse | None, Messages, Tools | None, str | None]":
    """Return `(answer, messages, tools, model)`: an answer that ends the turn, or what to send.

    Notices that are due are appended to a copy of `messages`; stripped tools are left out, and an
    emptied list is `None`; past the limit the model may be the fallback.
    """
    tracker = wrapper.tracker
    notices: list[str | None] = []
    if tracker.is_at_limit():
        report_limit(wrapper)
        if wrapper.enforcement == Enforcement.CUTOFF:
            return _cut_off(wrapper), messages, tools, model
        if wrapper.enforcement == Enforcement.FALLBACK:
            model = wrapper.fallback_model
        elif wrapper.enforcement == Enforcement.WARN:
            notices.append(tracker.consume_at_limit_warning(Enforcement.WARN))
    notices.append(_threshold_warning(wrapper))
    if tools and tracker.should_strip_tools():
        notices.append(tracker.tool_strip_message())
        disallowed = tracker.config.tool_strip_disallow
        kept = [tool for tool in tools if disallowed and _name(tool) not in disallowed]
        tools = kept or None
    said = [{"role": "user", "content": notice} for notice in notices if notice]
    return None, list(messages) + said, tools, model


def report_limit(wrapper: "Wrapper") -> None:
    """Call the hooks, once for each time, when the budget is spent, and for a threshold with it."""
    tracker = wrapper.tracker
    if wrapper.on_threshold_crossed and wrapper.enforcement == Enforcement.CUTOFF:
        share = tracker.consume_stranded_crossing()
        if share is not None:
            call_hook(wrapper, wrapper.on_threshold_crossed, threshold=share)
    if wrapper.on_limit_reached and tracker.consume_limit_crossing():
        call_hook(wrapper, wrapper.on_limit_reached)


def _cut_off(wrapper: "Wrapper") -> ChatResponse:
    text = last_words(wrapper.tracker, wrapper.enforcement)
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    return ChatResponse(text, usage=nothing, cut_off_by=wrapper.tracker.SCOPE)


def _threshold_warning(wrapper: "Wrapper") -> str | None:
    share = wrapper.tracker.consume_threshold_crossing()
    if share is None:
        return None
    if wrapper.on_threshold_crossed:
        call_hook(wrapper, wrapper.on_threshold_crossed, threshold=share)
    warning: str = wrapper.tracker.threshold_message(share)
    return warning


def call_hook(wrapper: "Wrapper", hook: "Hook", **more: object) -> None:
    """Call a hook with its tracker's figures, or those given; what it raises is kept."""
    tracker = wrapper.tracker
    used, cap, unit = tracker.dominant_axis()
    share = tracker.utilization()
    scope: object = tracker.SCOPE
    figures = {"scope": scope, "utilization": share, "used": used, "cap": cap, "unit": unit}
    figures.update(more)
    try:
        pending: Any = hook(**figures)
        if hasattr(pending, "send"):
            pending.close()
            raise TypeError("a hook must be a plain function, not an async one")
    except Exception as error:  # noqa: BLE001 - a hook may raise anything, the call continues
        if wrapper.hook_error is None:
            print(f"microbudget: a {figures['scope']} hook raised {error!r}", file=sys.stderr)
        wrapper.hook_error = error


def _name(tool: "Any") -> "Any":
    """Return a tool's name in OpenAI's shape (`function.name`) or a flat one (`name`)."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return (isinstance(function, dict) and function.get("name")) or tool.get("name")
