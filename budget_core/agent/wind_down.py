"""Bring a run to its end in stages: a notice, fewer tools, no tools, a final call."""

from budget_core.checks import check_text
from budget_core.config import check_each, check_share, in_ppm
from budget_core.lazy_call import lazy_call
from budget_core.thresholds import nearest, newly_reached, withdraw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

    from budget_core._types import Axis
    from budget_core.agent.envelope import Envelope
    from budget_core.agent.llm_call import Request
    from budget_core.agent.stop import StopReason

_NORMAL = "normal"
_NARROWED = "narrowed"
_TOOLS_OFF = "tools_off"
_LAST = "last_call"


class WindDown:
    """When the model is notified that its run nears a limit, and loses its tools.

    Shares are of what may be used before the final call, on the axis nearest to its end.

    - `notice_at`: shares at which the model gets a notice, each once.
    - `narrow_at`: the share from which only tools marked `essential` are offered, if there are any.
    - `tools_off_at`: the share from which no tools are offered, nor are they once all tool calls
      are used.
    - templates: the texts of the notices, with `{scope} {pct} {used} {cap} {unit} {reserved}
      {disallow_clause}`, and in `last_call_template` `{reason}`; `None` is the standard text.

    Raises `ValueError` naming the field that is wrong.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython

    def __init__(
        self,
        notice_at: "Sequence[float]" = (0.5, 0.8),
        narrow_at: float | None = 0.9,
        tools_off_at: float | None = 0.95,
        notice_template: str | None = None,
        tools_template: str | None = None,
        last_call_template: str | None = None,
    ) -> None:
        self.notice_at = check_each("notice_at", notice_at, check_share)
        self.narrow_at = check_share("narrow_at", narrow_at, 1, True)
        self.tools_off_at = check_share("tools_off_at", tools_off_at, 1, True)
        self.notice_template = check_text("notice_template", notice_template, True)
        self.tools_template = check_text("tools_template", tools_template, True)
        self.last_call_template = check_text("last_call_template", last_call_template, True)

    def apply(
        self,
        request: "Request",
        envelope: "Envelope",
        axes: "list[Axis]",
        essential: "set[str]",
        reason: "StopReason | None",
    ) -> "tuple[str, list[str]]":
        """Return `(stage, notices)` of the next call, and take the tools that are off from it.

        It is the final call where a reason is given. `axes` are those of an account beside the
        envelope's. From which threshold on a notice is still to be given is in the envelope's
        `notes`.
        """
        if reason is not None:
            request.tools = None
            return _LAST, [
                lazy_call("budget_core.notices", "last_call", self.last_call_template, str(reason))
            ]
        axis = nearest(envelope.axes() + axes)
        notices = []
        thresholds = [in_ppm(share) for share in self.notice_at]
        ppm = newly_reached(axis, thresholds, envelope.notes.get("notice", 0))
        if ppm is not None:
            envelope.notes["notice"] = ppm + 1
            notices.append(lazy_call("budget_core.notices", "warning", self.notice_template, axis))
        kept, gone = withdraw(request.tools or [], axis, self._stages(envelope, essential))
        if not gone:
            return _NORMAL, notices
        request.tools = kept or None
        off = gone if kept else ()
        notices.append(
            lazy_call("budget_core.notices", "tools_off", self.tools_template, axis, off)
        )
        return _NARROWED if kept else _TOOLS_OFF, notices

    def _stages(self, envelope: "Envelope", essential: "set[str]") -> "list[Any]":
        off = None if self.tools_off_at is None else in_ppm(self.tools_off_at)
        if envelope.tool_calls.left() == 0:
            off = 0
        stages: list[Any] = [(off, lambda name: False)]
        if essential and self.narrow_at is not None:
            stages.append((in_ppm(self.narrow_at), lambda name: name in essential))
        return stages
