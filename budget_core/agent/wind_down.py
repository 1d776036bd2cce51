"""Bring a run to its end in stages: a notice, fewer tools, no tools, a last call."""

from budget_core.checks import check_text
from budget_core.config import TOOL_STRIP, WARNING, Config, check_each, check_share
from budget_core.notices import disallow_clause, substitute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core.agent.envelope import Envelope
    from budget_core.agent.llm_call import Request
    from budget_core.agent.stop import StopReason

LAST_CALL = (
    "[Budget exhausted] {reason}. This is your last answer and there are no tools any more: tell "
    "the user what you have found, what you have done, and what is missing."
)
_NORMAL = "normal"
_NARROWED = "narrowed"
_TOOLS_OFF = "tools_off"
_LAST = "last_call"


class WindDown(Config):
    """When the model is notified that its run nears a limit, and loses its tools.

    Shares are of what may be used before the last call, on the axis nearest to its end.

    - `notice_at`: shares at which the model gets a notice, each once.
    - `narrow_at`: the share from which only tools marked `essential` are offered, if there are any.
    - `tools_off_at`: the share from which no tools are offered, nor are they once all tool calls
      are used.
    - templates: the texts of the notices, with `{scope} {pct} {used} {cap} {unit}
      {disallow_clause}`, and in `last_call_template` `{reason}`.

    Raises `ValueError` naming the field that is wrong.
    """

    def __init__(
        self,
        notice_at: "Sequence[float]" = (0.5, 0.8),
        narrow_at: float | None = 0.9,
        tools_off_at: float | None = 0.95,
        notice_template: str = WARNING,
        tools_template: str = TOOL_STRIP,
        last_call_template: str = LAST_CALL,
    ) -> None:
        self.notice_at = check_each("notice_at", notice_at, check_share)
        self.narrow_at = check_share("narrow_at", narrow_at, 1, True)
        self.tools_off_at = check_share("tools_off_at", tools_off_at, 1, True)
        self.notice_template = check_text("notice_template", notice_template)
        self.tools_template = check_text("tools_template", tools_template)
        self.last_call_template = check_text("last_call_template", last_call_template)

    def apply(
        self,
        request: "Request",
        envelope: "Envelope",
        essential: "set[str]",
        reason: "StopReason | None",
    ) -> "tuple[str, list[str]]":
        """Return `(stage, notices)` of the next call, and take the tools that are off from it.

        It is the last call where a reason is given. Which notices were given is in the envelope's
        `notes`.
        """
        if reason is not None:
            request.tools = None
            values: dict[str, Any] = {"reason": str(reason)}
            return _LAST, [substitute(self.last_call_template, values)]
        share, used, cap, unit, scope = envelope.nearest()
        values = {"scope": scope, "used": used, "cap": cap, "unit": unit}
        notices = []
        noticed = envelope.notes.get("notice", -1)
        crossed = [_ppm(at) for at in self.notice_at if noticed < _ppm(at) <= share]
        if crossed:
            envelope.notes["notice"] = max(crossed)
            values["pct"] = (max(crossed) + 5_000) // 10_000
            notices.append(substitute(self.notice_template, values))
        off = envelope.tool_calls.left() == 0 or share >= _ppm(self.tools_off_at)
        narrow = essential and share >= _ppm(self.narrow_at)
        if not request.tools or not (off or narrow):
            return _NORMAL, notices
        kept = [tool for tool in request.tools if not off and _name(tool) in essential]
        gone = [_name(tool) for tool in request.tools if tool not in kept]
        if not gone:
            return _NORMAL, notices
        request.tools = kept or None
        values["pct"] = min(100, share // 10_000)
        values["disallow_clause"] = disallow_clause(tuple(gone) if kept else ())
        notices.append(substitute(self.tools_template, values))
        return _NARROWED if kept else _TOOLS_OFF, notices


def _ppm(share: float | None) -> int:
    return 1 << 60 if share is None else int(share * 1_000_000 + 0.5)


def _name(tool: "Any") -> str:
    return str(tool["function"]["name"])
