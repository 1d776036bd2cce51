"""All that one agent turn gathers: tokens, tool results, citations, and who may still write."""

from budget_core.allowance import claim_repair
from budget_core.checks import NoLock, check_count, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Lock
    from budget_core.turn_records import CitationAccumulator, ToolTraceEntry
    from budget_core.usage import Usage

RUNNING = "running"
COMPLETED = "completed"
TIMED_OUT = "timed_out"
TIMED_OUT_LATE = "timed_out_late"


class TurnRuntimeState:
    """The state of one turn, shared by all that work on it.

    - `input_tokens`, `output_tokens`, `cache_read_tokens`, `cache_creation_tokens`: of all LLM
      calls; `missing_counts` and `invalid_counts` tell how many values were not there or no count.
    - `citations`: a `CitationAccumulator`.
    - `tool_results`: what tools returned, written by the turn's own thread only.
    - `blocked_tool_names`: tools that may not be called any more.
    - `validation_repair_counts`: attempts to repair a call's arguments, by the call's id.
    - `final_text`, `timed_out`, `prompt_render_hash`, `context_was_compacted`: how it went.
    - `late_receipts`: the trace entries of tools that ended too late, in their order.
    """

    LOCK: "Callable[[], Lock]" = NoLock
    RECORDS = "budget_core.turn_records"  # loaded when something is read

    input_tokens = output_tokens = 0
    cache_read_tokens = cache_creation_tokens = 0
    missing_counts = invalid_counts = 0
    final_text = prompt_render_hash = ""
    timed_out = context_was_compacted = False
    _closed = False
    _citations: "CitationAccumulator | None" = None

    def __init__(self, session_id: str, budget: "Any", lock: "Lock | None" = None) -> None:
        self.session_id = check_text("session_id", session_id)
        self.budget = budget
        self.tool_results: list[dict[str, Any]] = []
        self.blocked_tool_names: set[str] = set()
        self.validation_repair_counts: dict[str, int] = {}
        self.late_receipts: list[ToolTraceEntry] = []
        self._trace: dict[str, tuple[str, str, str, int, bool]] = {}  # what makes a ToolTraceEntry
        self.lock = lock or self.LOCK()

    def add_tokens(
        self,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_read_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
    ) -> None:
        """Add what an LLM call used, also after `close_writes`; never raises, never lowers a count.

        `None` counts as missing, any other malformed value as invalid.
        """
        with self.lock:
            for name, tokens in (
                ("input_tokens", input_tokens),
                ("output_tokens", output_tokens),
                ("cache_read_tokens", cache_read_tokens),
                ("cache_creation_tokens", cache_creation_tokens),
            ):
                try:
                    setattr(self, name, getattr(self, name) + check_count(name, tokens))
                except ValueError:
                    if tokens is None:
                        self.missing_counts += 1
                    else:
                        self.invalid_counts += 1

    def add_usage(self, usage: "Usage") -> None:
        """Add what an LLM call used, as `usage.read_usage` returns it."""
        self.add_tokens(usage.input, usage.output, usage.cached, usage.cache_written)

    def claim_repair(self, id: str) -> bool:
        """Count one attempt to repair a call's arguments, or return `False`: deny the call.

        A call has two.
        """
        with self.lock:
            return claim_repair(self.validation_repair_counts, id)

    @property
    def citations(self) -> "CitationAccumulator":
        """What the answer may cite."""
        with self.lock:
            if self._citations is None:
                self._citations = self._record("CitationAccumulator")
            return self._citations

    @property
    def tool_trace(self) -> "dict[str, ToolTraceEntry]":
        """Where each tool call stands, by trace id: a copy."""
        with self.lock:
            return {key: self._record("ToolTraceEntry", *a) for key, a in self._trace.items()}

    def set_trace_running(
        self, trace_id: str, tool_name: str, claim: "Callable[[], bool] | None" = None
    ) -> bool:
        """Note that a tool starts; `False` where writes are closed, and it must not.

        `claim()` is asked then only, such as `budget.claim_tool_call`; what it refuses is `False`
        too. Raises `ValueError` for a trace id that this turn has had.
        """
        with self.lock:
            if trace_id in self._trace:
                raise ValueError(f"trace id {trace_id!r} is taken: each call needs its own")
            if self._closed or (claim and not claim()):
                return False
            self._trace[trace_id] = (tool_name, RUNNING, trace_id, 0, False)
            return True

    def mark_trace_timed_out(self, trace_id: str) -> bool:
        """Give up on a tool; `False` if it is not running: it has ended, or the id is unknown."""
        with self.lock:
            return self._move(trace_id, RUNNING, TIMED_OUT)

    def complete_trace(self, trace_id: str, latency_ms: int = 0, retryable: bool = False) -> bool:
        """Note that a tool has ended, and return `True`: what it did may be written down.

        `False` means that nothing of it may be: it was given up before, and leaves a late receipt;
        or it has been completed already, or its trace id is unknown.
        """
        with self.lock:
            if self._move(trace_id, RUNNING, COMPLETED, latency_ms, retryable):
                return True
            if self._move(trace_id, TIMED_OUT, TIMED_OUT_LATE, latency_ms, retryable):
                self.late_receipts.append(self._record("ToolTraceEntry", *self._trace[trace_id]))
            return False

    def is_accepting_writes(self) -> bool:
        """Tell whether the turn is open; once it is closed, tools must have no side effects."""
        return not self._closed

    def close_writes(self) -> None:
        """End the turn: tools that still run have timed out."""
        with self.lock:
            self._closed = True
            for trace_id in list(self._trace):
                self._move(trace_id, RUNNING, TIMED_OUT)

    def _move(
        self,
        trace_id: str,
        start: str,
        end: str,
        latency_ms: int = 0,
        retryable: bool = False,
    ) -> bool:
        entry = self._trace.get(trace_id)
        if entry is None or entry[1] != start:
            return False
        self._trace[trace_id] = (entry[0], end, trace_id, latency_ms, retryable)
        return True

    def _record(self, name: str, *fields: "Any") -> "Any":
        return getattr(__import__(self.RECORDS, None, None, (name,)), name)(*fields)
