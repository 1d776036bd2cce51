"""Chat with the agent of a board over its serial line, a turn a line."""

import asyncio
import gc

from budget_core.board.device import refresh_network
from budget_core.errors import BudgetError
from budget_core.lazy_call import lazy_call
from budget_core.until import until
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core.agent.operative import Operative
    from budget_core.agent.run import OperativeResult, Run
    from budget_core.agent.tool import Tool
    from budget_core.board.fleet import FleetBudget
    from budget_core.daily_tracker import DailyBudgetTracker

HELP = """\
Type a question; Ctrl-C stops the answer.
/budget  what today has used    /help  these lines
/quit    end the chat, as Ctrl-C at the prompt does"""


class Console:
    """A chat: reads lines, runs a turn of `operative` for each, shows the answer and the budget.

    `keyboard.line(prompt)` is awaited for each line, `None` ends the chat. What was asked and
    answered goes into the next turn, up to `settings.HISTORY_CHARS`; what tools returned does not.
    After a turn `fleet` gives back what it leased. An error ends the turn, not the chat.
    """

    def __init__(
        self,
        settings: "Any",
        operative: "Operative",
        daily: "DailyBudgetTracker",
        keyboard: "Any",
        write: "Callable[[str], object]" = print,
        fleet: "FleetBudget | None" = None,
    ) -> None:
        self.settings = settings
        self.operative = operative
        self.daily = daily
        self.keyboard = keyboard
        self.write = write
        self.fleet = fleet
        self.messages: list[dict[str, Any]] = []
        self._task: Any = None
        operative.on_event = self._event

    def run(self) -> None:
        """Chat until the end of input, `/quit`, or Ctrl-C at the prompt."""
        try:
            if self.fleet is not None:
                self.write(asyncio.run(self.fleet.line()))
            while True:
                gc.collect()
                line = asyncio.run(self.keyboard.line("> "))
                if line is None or line.strip() == "/quit":
                    return
                self.obey(line.strip())
        except KeyboardInterrupt:
            self.write("")
        finally:
            self.daily.flush()

    def obey(self, line: str) -> None:
        """Run a command or a turn."""
        if line == "/budget":
            self.write(self.budget_line())
        elif line.startswith("/"):
            self.write(HELP)
        elif line:
            try:
                self.turn(line)
            except Exception as error:  # noqa: BLE001 - an error ends the turn, not the chat
                self.write(f"error: {type(error).__name__}: {error}")

    def turn(self, question: str) -> None:
        """Ask one question, and show the answer and what it has used."""
        asked = self.messages + [{"role": "user", "content": question}]
        run = None
        try:
            refresh_network()
            run = self.operative.begin(asked)
            asyncio.run(self._finish(run))
        except KeyboardInterrupt:
            asyncio.run(self._stop())
        self._task = None
        if run is not None and run.result is not None:
            self._show(run.result)
        if self.fleet is not None:
            try:
                asyncio.run(self.fleet.end_turn())
            except KeyboardInterrupt:
                pass  # the next turn does it

    async def _finish(self, run: "Run") -> None:
        self._task = asyncio.create_task(run.finish())
        await self._task

    async def _stop(self) -> None:
        """Let the interrupted turn end, so that what it has used is counted."""
        if self._task is not None and not self._task.done():  # CPython has ended it
            self._task.cancel()
            try:
                await self._task
            except asyncio.CancelledError:
                pass

    def _show(self, result: "OperativeResult") -> None:
        reason = result.reason
        if result.text and (reason is None or result.text != reason.reason):
            self.write(result.text)
        if reason is not None:
            failed = reason.error is not None and reason.used is None
            self.write(f"error: {reason.reason}" if failed else f"({reason})")
        if result.messages[-1]["role"] == "assistant":  # else there is no answer to continue from
            spoken = [  # tool calls and what they returned take most memory
                message
                for message in result.messages
                if message["role"] != "tool" and not message.get("tool_calls")
            ]
            self.messages = trimmed(spoken, self.settings.HISTORY_CHARS)
        used = result.usage
        calls = "call" if result.turns == 1 else "calls"
        self.write(f"[{used['tokens']} tokens in {result.turns} {calls}; {self.budget_line()}]")

    def _event(self, kind: str, **fields: "Any") -> None:
        if kind == "tool_finished":
            self.write(f"  {fields['call'].name}: {fields['status']}")

    def budget_line(self) -> str:
        """Return what the day has used and has left, and until when."""
        daily = self.daily
        if WALL() >= daily.resets_at:  # else looking writes nothing
            daily.maybe_auto_reset()
        used, cap = daily.total_tokens, daily.token_cap
        text = f"today {used} tokens, no limit"
        if cap is not None:
            left = 0 if daily.store_error else max(0, cap - used)
            text = f"today {used}/{cap} tokens, {left} left"
        now = WALL()
        text += f" until {until(daily.resets_at, now)}" if now else ", clock not set"
        trouble = daily.store_error or daily.state_error
        return text if trouble is None else f"{text}; counts as spent: {trouble}"


def trimmed(messages: "list[dict[str, Any]]", most: int) -> "list[dict[str, Any]]":
    """Return a conversation less its oldest turns, so that at most `most` characters are left.

    What stands before the first turn stays, and so does the last turn unless it is longer alone.
    """
    starts = [n for n, message in enumerate(messages) if message["role"] == "user"]
    starts.append(len(messages))
    head = messages[: starts[0]]
    while sum([len(message["content"] or "") for message in messages[starts[0] :]]) > most:
        starts.pop(0)
    return head + messages[starts[0] :]


def main(settings: "Any", tools: "list[Tool]") -> None:
    """Chat over the serial line with an agent that has `tools`, within the limits of `settings`.

    The API key comes from the board's `secret.py`, which may also name a BASE_URL and a MODEL.
    With a LEDGER in the settings it also draws on the budget of a fleet.
    """
    from budget_core.board.line_input import Keyboard

    try:
        made = lazy_call("budget_core.board.make_agent", "make_agent", settings, tools)
    except (BudgetError, ValueError) as error:
        print(f"error: {error}")
        return
    client, daily, operative, fleet = made
    console = Console(settings, operative, daily, Keyboard(settings.ECHO), fleet=fleet)
    print(f"{client!r}; /help says more")
    print(console.budget_line())
    console.run()
