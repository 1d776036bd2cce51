"""Tell, a line an event, what an agent does and what is left of its budgets."""

import sys

from budget_core.thresholds import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import budget_core as budget


COLORS = {"notice": 33, "limit": 31, "answer": 32, "tool": 36, "budget": 34, "today": 34}


class Report:
    """Prints the events of one run, in colour if asked to."""

    def __init__(self, daily: "budget.DailyBudgetTracker", color: bool = False) -> None:
        self.daily = daily
        self.color = color
        self.budget: Any = None
        self.told: set[str] = set()
        self.calls = 0

    def line(self, kind: str, text: str) -> None:
        """Print one line: what it is about, then what happened."""
        start = f"{kind:<8}"
        if self.color and kind in COLORS:
            start = f"\x1b[{COLORS[kind]}m{start}\x1b[0m"
        print(start + text)

    def start(self, client: "budget.ChatClient", folder: str) -> None:
        """Say who runs where, and what the day has used so far."""
        self.line("agent", f"{runtime()}, {client!r}, folder {folder}")
        self.today()

    def event(self, kind: str, **fields: "Any") -> None:
        """Show what the operative reports."""
        if kind == "started":
            self.budget = fields["budget"]
        elif kind == "turn_started":
            stage = "" if fields["stage"] == "normal" else f" [{fields['stage']}]"
            self.line("turn", f"{fields['turn']}{stage}: {left(fields['remaining'])} left")
        elif kind == "notice":
            self.told.add(fields["text"])
            self.line("notice", fields["text"])
        elif kind == "response":
            _, unit, used, cap, kept = nearest(self.budget.axes())
            most = 0 if cap is None else cap - kept  # `kept` is reserved for the answer
            self.line("budget", f"{bar(used / most if most else 0)} {used} of {most} {unit}")
        elif kind == "tool_finished":
            call = fields["call"]
            values = ", ".join([str(value) for value in (call.arguments or {}).values()])
            size = len(fields["result"])
            self.line("tool", f"{call.name}({values}) {fields['status']}: {size} characters")
        elif kind in ("completed", "stopped"):
            self.end(kind, fields["result"])

    def asked(self, messages: "list[dict[str, Any]]") -> None:
        """Show the notices of the day's budget, which the operative does not know of."""
        for message in messages:
            text = message["content"] or ""
            if message["role"] == "user" and text[:7] == "[Budget" and text not in self.told:
                self.line("notice", text)

    def call(self, model: str, response: "budget.ChatResponse") -> None:
        """Show an LLM call and its tokens."""
        self.calls += 1
        usage = response.usage or {}
        asked, told = usage.get("prompt_tokens", "?"), usage.get("completion_tokens", "?")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        cached = f" ({cached} cached)" if cached else ""
        self.line("call", f"{self.calls}: {model}, {asked}{cached} tokens in, {told} out")

    def day_is_spent(self, scope: str, used: int, cap: int | None, unit: str, **_: object) -> None:
        """Show that the day's budget is spent."""
        self.line("limit", f"the {scope} budget is spent: {used}/{cap} {unit}")

    def end(self, kind: str, result: "budget.OperativeResult") -> None:
        """Show why the run was stopped, if it was, the answer, and what was used."""
        if result.reason is not None:
            self.line("limit", str(result.reason))
        for number, text in enumerate(result.text.split("\n") if result.text else ()):
            self.line("answer" if number == 0 else "", text)
        used = result.usage
        more = f", {used['tool_calls']} tool calls, {used['elapsed_ms'] / 1000:.1f} s"
        if used["missing"]:
            more += f" and what {used['missing']} calls did not report"
        self.line("end", f"{kind} after {self.calls} calls: {used['tokens']} tokens{more}")
        self.today()

    def facts(self, result: "budget.OperativeResult", before: int) -> "dict[str, Any]":
        """Return what came of a run, as JSON can hold it; `before` is the day's total before it."""
        return {
            "runtime": runtime(),
            "calls": self.calls,
            "tokens": result.usage["tokens"],
            "cached": result.state.cache_read_tokens,
            "tool calls": result.usage["tool_calls"],
            "limit": str(result.reason or ""),
            "answer": result.text,
            "today": [before, self.daily.total_tokens],
        }

    def today(self) -> None:
        """Show the day's total."""
        used, cap, unit = self.daily.dominant_axis()
        self.line("today", f"{bar(self.daily.utilization())} {used}/{cap} {unit}")
        trouble = self.daily.store_error or self.daily.state_error
        if trouble is not None:
            self.line("state", f"the day counts as spent: {trouble}")


class Narrator:
    """A provider round the real one, innermost, that shows what the model is really sent."""

    def __init__(self, inner: "budget.ChatClient", report: Report) -> None:
        self.inner = inner
        self.report = report

    def get_default_model(self) -> str:
        """Return the inner provider's default model."""
        return self.inner.get_default_model()

    async def chat(
        self,
        messages: "list[dict[str, Any]]",
        tools: "list[dict[str, Any]] | None" = None,
        model: str | None = None,
        **options: "Any",
    ) -> "budget.ChatResponse":
        """Call the model; show the day's notices before, its usage afterwards."""
        self.report.asked(messages)
        response = await self.inner.chat(messages=messages, tools=tools, model=model, **options)
        self.report.call(model or self.get_default_model(), response)
        return response


def runtime() -> str:
    """Return the name and the version of what runs this."""
    version = ".".join([str(part) for part in sys.implementation.version[:3]])
    return f"{sys.implementation.name} {version}"


def left(remaining: "dict[str, Any]") -> str:
    """Return what is left, this turn included, on each axis that has a limit, in words."""
    names = (("turns", "turns"), ("tokens", "tokens"), ("tool_calls", "tool calls"))
    found = [f"{remaining[axis]} {name}" for axis, name in names if remaining[axis] is not None]
    if remaining["time_ms"] is not None:
        found.append(f"{remaining['time_ms'] // 1000} s")
    return ", ".join(found)


def bar(share: float, width: int = 20) -> str:
    """Return a bar of `width` that is full at a share of 1."""
    full = min(width, int(share * width))
    return "[" + "#" * full + "-" * (width - full) + f"] {int(share * 100):>3}%"
