"""Tell, a line an event, what an agent does and what is left of its budgets."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import budget_core as budget


class Report:
    """Prints the events of one turn."""

    def __init__(
        self, turn: "budget.TurnBudgetTracker", daily: "budget.DailyBudgetTracker"
    ) -> None:
        self.turn = turn
        self.daily = daily
        self.calls = 0

    def line(self, kind: str, text: str) -> None:
        """Print one line: what it is about, then what happened."""
        print(f"{kind:<8}{text}")

    def start(self, client: "budget.ChatClient", folder: str) -> None:
        """Say who runs where, and what the day has used so far."""
        version = ".".join([str(part) for part in sys.implementation.version[:3]])
        self.line("agent", f"{sys.implementation.name} {version}, {client!r}, folder {folder}")
        self.today()

    def notice(self, text: str) -> None:
        """Show a notice that the model got with this call."""
        self.line("notice", text)

    def call(self, model: str, response: "budget.ChatResponse") -> None:
        """Show an LLM call and its tokens."""
        self.calls += 1
        usage = response.usage or {}
        asked, told = usage.get("prompt_tokens", "?"), usage.get("completion_tokens", "?")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        cached = f" ({cached} cached)" if cached else ""
        self.line("call", f"{self.calls}: {model}, {asked}{cached} tokens in, {told} out")

    def event(self, name: str, **fields: "Any") -> None:
        """Show what the loop reports."""
        if name == "response":
            used, cap, unit = self.turn.dominant_axis()
            self.line("budget", f"{bar(self.turn.utilization())} turn: {used}/{cap} {unit}")
        elif name == "tool_finished":
            call = fields["call"]
            values = ", ".join([str(value) for value in (call.arguments or {}).values()])
            self.line("tool", f"{call.name}({values}) gave {len(fields['result'])} characters")

    def limit(self, scope: str, used: int, cap: int | None, unit: str, **more: object) -> None:
        """Show that a budget is spent."""
        self.line("limit", f"the {scope} budget is spent: {used}/{cap} {unit}")

    def end(self, result: "budget.TurnResult") -> None:
        """Show the answer, why the turn ended, and the day's total."""
        for number, text in enumerate(result.text.split("\n")):
            self.line("answer" if number == 0 else "", text)
        tokens = self.turn.total_tokens
        unknown = self.turn.usage_seen["missing"]
        more = f" and what {unknown} calls did not report" if unknown else ""
        self.line("end", f"{result.reason} after {self.calls} calls and {tokens} tokens{more}")
        self.today()

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
        """Show the notices among `messages`, call the model, show its usage."""
        for message in messages:
            if message["role"] == "user" and message["content"].startswith("[Budget"):
                self.report.notice(message["content"])
        response = await self.inner.chat(messages=messages, tools=tools, model=model, **options)
        self.report.call(model or self.get_default_model(), response)
        return response


def bar(share: float, width: int = 20) -> str:
    """Return a bar of `width` that is full at a share of 1."""
    full = min(width, int(share * width))
    return "[" + "#" * full + "-" * (width - full) + f"] {int(share * 100):>3}%"
