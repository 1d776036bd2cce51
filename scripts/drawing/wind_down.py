"""A budget's wind-down, from a run of an operative against the scripted endpoint."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final

from budget_cpython import Budget, ChatClient, Operative, Tool, WindDown
from drawing.svg import Drawing
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall

BUDGET: Final = Budget(max_tokens=12_000, max_tokens_per_turn=300, last_call=0.25)
_NUMBER: Final = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}


@dataclass
class CallMade:
    """One LLM call of a run: what it was told and offered, and the tokens used before and by it."""

    stage: str
    tools: int
    before: int
    told: bool = False
    used: int = 0


def _read_on(asked: Asked) -> Reply:
    """Ask for one note after the other, as long as there is a tool for it."""
    if "read_note" not in asked.tools:
        return Reply("Tomatoes want water. " * 30)
    known = sum(message["role"] == "tool" for message in asked.messages)
    call = ScriptedToolCall("read_note", json.dumps({"number": known + 1}))
    return Reply("Note it. " * 26, (call,))


def _read_note(number: int) -> str:
    return f"Note {number}: " + "sow, water, weed and wait. " * 5


def calls_of_run() -> list[CallMade]:
    """Return the calls of a run whose model reads on until it has no tools."""
    tools = [
        Tool("read_note", "Read a note.", _read_note, _NUMBER, essential=True),
        Tool("drop_note", "Throw a note away.", _read_note, _NUMBER),
    ]
    calls: list[CallMade] = []

    def see(kind: str, **fields: Any) -> None:
        if kind == "turn_started":
            before = calls[-1].before + calls[-1].used if calls else 0
            calls.append(CallMade(fields["stage"], 0, before))
        elif kind == "notice":
            calls[-1].told = True
        elif kind == "turn_completed":
            calls[-1].used = fields["cumulative_usage"]["tokens"] - calls[-1].before

    with ScriptedEndpoint(scripts={"reader": _read_on}) as endpoint:
        model = ChatClient(endpoint.base_url, "reader")
        system = "You look after a garden. " * 20
        operative = Operative(model, tools, BUDGET, system, on_event=see)
        asyncio.run(operative.run("What is left to do in the garden?"))
        for call, request in zip(calls, endpoint.requests, strict=True):
            call.tools = len(request.body.get("tools") or ())
    return calls


_LEFT, _TOP, _WIDTH, _HEIGHT = 80, 64, 590, 250
_MARKS: Final = {
    "normal": "warned",
    "narrowed": "fewer tools",
    "tools_off": "no tools",
    "last_call": "final call",
}


def drawing() -> Drawing:
    """Return the drawing."""
    calls = calls_of_run()
    limit = BUDGET.max_tokens or 0
    cap = limit - round(limit * (BUDGET.last_call or 0))
    total = calls[-1].before + calls[-1].used
    said = "; ".join(
        f"call {number}: {_MARKS[call.stage]}" for number, call in enumerate(calls, 1) if call.told
    )
    picture = Drawing(
        900,
        405,
        "The wind-down of a budget over a run",
        f"{len(calls)} calls of a run use {total:,} of {limit:,} tokens, of which {limit - cap:,} "
        f"are kept for the final call. {said}.",
    )
    picture.text(24, 34, f"A run of {len(calls)} calls uses {total:,} of {limit:,} tokens", "big")

    def y(tokens: float) -> float:
        return round(_TOP + _HEIGHT * (1 - tokens / limit), 1)

    picture.box(_LEFT, y(limit), _WIDTH, y(cap) - y(limit), "reserve")
    wind_down = WindDown()
    lines = [(share, f"{share:.0%}: a notice") for share in wind_down.notice_at]
    lines.append((wind_down.narrow_at, f"{wind_down.narrow_at:.0%}: only essential tools"))
    for share, words in lines:
        picture.line(f"M{_LEFT} {y(share * cap)}H{_LEFT + _WIDTH}", "line broken")
        picture.text(_LEFT + _WIDTH + 10, y(share * cap) + 4, words, "small")
    for tokens, words in ((limit, "the limit"), (cap, "the reserve begins")):
        picture.line(f"M{_LEFT} {y(tokens)}H{_LEFT + _WIDTH}", "line")
        picture.text(_LEFT - 8, y(tokens) + 5, f"{tokens:,}", "small", "end")
        picture.text(_LEFT + _WIDTH + 10, y(tokens) + 4, words, "small name")
    picture.text(_LEFT - 8, y(0) + 5, "0", "small", "end")
    _bars(picture, calls, y)
    return picture


def _bars(picture: Drawing, calls: list[CallMade], y: Any) -> None:
    step = _WIDTH / len(calls)
    picture.line(f"M{_LEFT} {y(0)}H{_LEFT + _WIDTH}", "line")
    for row, words in ((20, "call"), (40, "tools"), (62, "model")):
        picture.text(_LEFT - 8, y(0) + row, words, "small soft", "end")
    for number, call in enumerate(calls):
        left, middle = _LEFT + number * step, _LEFT + (number + 0.5) * step
        after = call.before + call.used
        column = round(left + 6, 1), round(step - 12, 1)
        kind = "held" if call.stage == "last_call" else "used"
        for top, bottom, fill in ((call.before, 0, "faint"), (after, call.before, kind)):
            picture.box(column[0], y(top), column[1], round(y(bottom) - y(top), 1), fill)
        picture.text(round(middle, 1), y(0) + 20, str(number + 1), "small", "middle")
        picture.text(round(middle, 1), y(0) + 40, str(call.tools), "small", "middle")
        if call.told:
            for row, word in enumerate(_MARKS[call.stage].split()):
                picture.text(round(middle, 1), y(0) + 62 + 15 * row, word, "small name", "middle")
