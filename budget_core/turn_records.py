"""What can be read of a turn: where its tool calls stand, and what its answer may cite."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class CitationAccumulator:
    """What the answer may cite: vault anchors, web sources, and paths of rendered web pages."""

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython

    def __init__(
        self,
        local: "set[str] | None" = None,
        web: "list[dict[str, Any]] | None" = None,
        rendered_paths: "list[str] | None" = None,
    ) -> None:
        self.local = set() if local is None else local
        self.web = [] if web is None else web
        self.rendered_paths = [] if rendered_paths is None else rendered_paths


class ToolTraceEntry:
    """Where one tool call stands; a change of status makes a new entry.

    `status` is `"running"`, `"completed"`, `"timed_out"` or `"timed_out_late"`; `retryable` whether
    it may be tried again.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython

    def __init__(
        self,
        tool_name: str,
        status: str,
        trace_id: str,
        latency_ms: int = 0,
        retryable: bool = False,
    ) -> None:
        self.tool_name = tool_name
        self.status = status
        self.trace_id = trace_id
        self.latency_ms = latency_ms
        self.retryable = retryable
