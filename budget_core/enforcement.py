"""Enforcement near a limit of a tracker or an account: notices, tools, the model, the answer."""

from budget_core.config import OUTAGE, WHOLE, Enforcement, in_ppm
from budget_core.log import log
from budget_core.notices import (
    CUTOFF,
    DAMAGED,
    FALLBACK,
    LAST_CALL,
    TOOL_STRIP,
    UNAVAILABLE,
    WARNING,
    fill,
    substitute,
)
from budget_core.provider import ChatResponse
from budget_core.thresholds import (
    as_messages,
    is_reached,
    kept_calls,
    kept_of,
    nearest,
    newly_reached,
    withdraw,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Axis, Enforcer, Hook, Messages, Tools, Tracker

# What was announced of the limit, as bits: to the model, to the limit's hook, and to the hook of a
# threshold crossed by the same call. Times OUTAGE, the same where the limit is a failing store.
_WARNED = 1
_HOOK_CALLED = 2
_STRANDED = 4


async def enforce(
    enforcer: "Enforcer",
    messages: "Messages",
    tools: "Tools | None",
    model: str | None,
    balance: "Any" = None,
) -> "tuple[ChatResponse | None, Messages, Tools | None, str | None]":
    """Return `(answer, messages, tools, model)`: an answer that ends the turn, or what to send.

    Notices that are due are appended to a copy of `messages`; stripped tools are left out, and an
    emptied list is `None`; past the limit the model may be the fallback. Of the tracker's axes and
    those of the `balance` of an account, the nearest to its end counts.
    """
    tracker = enforcer.tracker
    config = tracker.config
    notices: list[str | None] = []
    if tracker.is_at_limit():
        report_limit(enforcer)
        if enforcer.enforcement == Enforcement.CUTOFF:
            text = last_words(tracker, enforcer.enforcement)
            return cut_off(text, tracker.SCOPE), messages, tools, model
        if enforcer.enforcement == Enforcement.FALLBACK:
            model = enforcer.fallback_model
        elif enforcer.enforcement == Enforcement.WARN:
            notices.append(consume_at_limit_warning(tracker, Enforcement.WARN))
    found = tracker.axes()
    if balance is not None:
        if await balance.look():
            with tracker.lock:
                tracker.warned_ppm = 0  # in its new window each threshold is crossed again
                tracker.changed()
        found += balance.axes()
    axis = nearest(found)
    if axis[4] and is_reached(axis, WHOLE) and enforcer.enforcement == Enforcement.CUTOFF:
        reason = {"reason": fill("{scope} budget: {used} of {cap} {unit}{reserved}", axis)}
        last = as_messages([substitute(LAST_CALL, reason)])
        return None, list(messages) + last, None, model
    share = _consume_crossing(tracker, axis)
    if share is not None:
        if enforcer.on_threshold_crossed:
            call_hook(enforcer, enforcer.on_threshold_crossed, axis, threshold=share)
        notices.append(fill(config.warning_template or WARNING, axis))
    if tools and config.tool_strip_threshold is not None:
        off = config.tool_strip_disallow
        stage = (in_ppm(config.tool_strip_threshold), lambda name: off and name not in off)
        tools, gone = withdraw(tools, axis, [stage])
        if gone:
            notices.append(
                fill(config.tool_strip_template or TOOL_STRIP, axis, gone if tools else ())
            )
    return None, list(messages) + as_messages(notices), tools or None, model


def report_limit(enforcer: "Enforcer") -> None:
    """Call the hooks, once for each time, when the budget is spent, and for a threshold with it."""
    tracker = enforcer.tracker
    if not tracker.is_at_limit():
        return
    axis = nearest(tracker.axes())
    if not tracker.logged and tracker.store_error is None:
        tracker.logged = True
        log("info", tracker.at_limit_message(enforcer.enforcement))
    if enforcer.on_threshold_crossed and enforcer.enforcement == Enforcement.CUTOFF:
        with tracker.lock:
            share = _newly_crossed(tracker, axis, True)
            stranded = share is not None and _announce(tracker, _STRANDED)
        if stranded:  # its text is still to come, with the one that ends the turn
            call_hook(enforcer, enforcer.on_threshold_crossed, axis, threshold=share)
    if enforcer.on_limit_reached:
        with tracker.lock:
            reached = _announce(tracker, _HOOK_CALLED)
        if reached:
            call_hook(enforcer, enforcer.on_limit_reached, axis)


def cut_off(text: str, scope: str) -> ChatResponse:
    """Return an answer in the model's place, by the budget of that scope."""
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    return ChatResponse(text, usage=nothing, cut_off_by=scope)


def call_hook(enforcer: "Enforcer", hook: "Hook", axis: "Axis", **more: object) -> None:
    """Call a hook with an axis' figures; what it raises is kept."""
    scope, unit, used, cap, _ = axis
    figures = {
        "scope": scope,
        "utilization": utilization([axis]),
        "used": used,
        "cap": cap,
        "unit": unit,
    }
    figures.update(more)
    try:
        pending: Any = hook(**figures)
        if hasattr(pending, "send"):
            pending.close()
            raise TypeError("a hook must be a plain function, not an async one")
    except Exception as error:  # noqa: BLE001 - a hook may raise anything, the call continues
        if enforcer.hook_error is None:
            log("error", f"a {scope} hook raised {type(error).__name__}")
        enforcer.hook_error = error


def last_words(tracker: "Tracker", enforcement: str) -> str:
    """Return the text that ends a turn, after a warning that the exhausting call left unsaid."""
    warning = consume_threshold_warning(tracker, True)
    text = at_limit_message(tracker, enforcement)
    return f"{warning}\n\n{text}" if warning else text


def consume_threshold_warning(tracker: "Tracker", force: bool) -> str | None:
    """Return the warning for the highest threshold newly crossed, once; else `None`."""
    axis = nearest(tracker.axes())
    share = _consume_crossing(tracker, axis, force)
    return None if share is None else fill(tracker.config.warning_template or WARNING, axis)


def _consume_crossing(tracker: "Tracker", axis: "Axis", force: bool = False) -> float | None:
    """Return the highest threshold newly crossed on an axis, once, as it was configured."""
    with tracker.lock:
        share = _newly_crossed(tracker, axis, force)
        if share is not None:
            tracker.last_consumed_threshold = share
            tracker.warned_ppm = in_ppm(share) + 1
            tracker.changed()
        return share


def _newly_crossed(tracker: "Tracker", axis: "Axis", force: bool) -> float | None:
    shares: dict[int, float] = {in_ppm(share): share for share in tracker.config.warning_thresholds}
    ppm = newly_reached(axis, list(shares), tracker.warned_ppm)
    if ppm is None or (
        _is_outage(tracker) if force else tracker.is_at_limit() or is_reached(axis, WHOLE)
    ):
        return None
    return shares[ppm]


def consume_at_limit_warning(tracker: "Tracker", enforcement: str | None) -> str | None:
    """Return the limit's message once, when it is first reached; else `None`."""
    with tracker.lock:
        return at_limit_message(tracker, enforcement) if _announce(tracker, _WARNED) else None


def _announce(tracker: "Tracker", bit: int) -> bool:
    """Note an announcement of the limit; `False` if it was made before, or is not due."""
    if _is_outage(tracker):
        bit *= OUTAGE  # a store's failure uses up no announcement of a spent budget
    if tracker.announced & bit or not tracker.is_at_limit():
        return False
    tracker.announced |= bit
    tracker.changed()
    return True


def _is_outage(tracker: "Tracker") -> bool:
    """Tell whether the tracker is at its limit for want of its store or ledger alone."""
    spent = [axis for axis in tracker.axes() if axis[3] is not None and axis[2] >= axis[3]]
    return tracker.is_out_of_reach() and not spent


def at_limit_message(tracker: "Tracker", enforcement: str | None) -> str:
    """Return the message at the limit; `enforcement` is the configured mode unless given."""
    if tracker.is_out_of_reach():
        return UNAVAILABLE
    if tracker.state_error is not None:
        return DAMAGED
    config = tracker.config
    fallback = (enforcement or config.enforcement) == Enforcement.FALLBACK
    template = config.cutoff_template or CUTOFF
    if fallback and hasattr(config, "fallback_template"):  # a turn says the same in both modes
        template = config.fallback_template or FALLBACK
    return fill(template, nearest(tracker.axes()))


def should_strip_tools(tracker: "Tracker") -> bool:
    """Tell whether the threshold of `tool_strip_threshold` is reached."""
    strip = tracker.config.tool_strip_threshold
    return strip is not None and is_reached(nearest(tracker.axes()), in_ppm(strip))


def tool_strip_message(tracker: "Tracker") -> str:
    """Return the notice that tools are off, and which."""
    config = tracker.config
    return fill(
        config.tool_strip_template or TOOL_STRIP,
        nearest(tracker.axes()),
        config.tool_strip_disallow,
    )


def axes(tracker: "Tracker") -> "list[Axis]":
    """Return `(scope, unit, used, cap, kept)` of a tracker's iterations and tokens."""
    config, scope = tracker.config, tracker.SCOPE
    calls, cap = tracker.iteration_cap, tracker.token_cap
    tokens = (scope, "tokens", tracker.total_tokens, cap, kept_of(cap, config.last_call))
    if not hasattr(config, "iteration_budget"):
        return [tokens]  # a day's are no axis
    kept = kept_calls(calls, config.last_call)
    return [(scope, "iterations", tracker.iterations_seen, calls, kept), tokens]


def dominant_axis(tracker: "Tracker") -> "tuple[int, int | None, str]":
    """Return `(used, cap, unit)` of the axis nearest to its cap."""
    _, unit, used, cap, _ = nearest(tracker.axes())
    return used, cap, unit


def utilization(axes: "list[Axis]") -> float:
    """Return the share used of the axis nearest to its cap; above 1 past the cap."""
    _, _, used, cap, _ = nearest(axes)
    return 0.0 if cap is None else used / cap if cap else 1.0


def note_outage(tracker: "Tracker") -> None:
    """Log that a store or ledger fails, or that it works again."""
    error = tracker.store_error
    if error is None:
        log("info", f"the {tracker.SCOPE} budget's state can be read and written again")
    else:
        log("warning", f"the {tracker.SCOPE} budget's state cannot be read or written: {error}")
