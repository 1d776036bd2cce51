"""Check a board's memory: the heap of a turn against a scripted model, and the C stack."""

from typing import Any

from budget_cpython.board.device import Device
from budget_cpython.board.doctor.finding import probe
from budget_cpython.board.doctor.network import PATIENCE_S
from budget_cpython.board.errors import DeviceError
from budget_cpython.board.fit import KIB, TLS_KIB, Memory, measure
from budget_cpython.finding import Finding, fails, ok, warning

_CALLS = 5
_ROOM = "deploy with --romfs or --frozen, which take less, or lower HISTORY_CHARS in settings.py"
_FLAT = "import the modules of budget_core at the top of main.py, not inside modules of your own"
_ENDS = {  # how a turn ends that has too little memory
    "MemoryError": ("a turn does not fit in the heap", _ROOM),
    "memory allocation failed": ("a turn does not fit in the heap", _ROOM),
    "recursion depth": ("a turn does not fit in the C stack", _FLAT),
}


def check_memory(device: Device) -> Finding:
    """Check that a turn of the board's agent fits in its heap and in its C stack.

    The board is restarted first: its heap is then as its program finds it.
    """
    device.connection.restart_idle()
    has = measure(device)
    try:
        turn = probe(device, "turn", PATIENCE_S)
    except DeviceError as error:
        if finding := _why_ended(str(error), has):
            return finding
        raise
    said = " ".join(turn["said"])
    return _why_ended(said, has) or _judge(has, turn, said)


def _why_ended(said: str, has: Memory) -> Finding | None:
    for words, (what, fix) in _ENDS.items():
        if words in said:
            return fails(
                f"{what}; the heap has {has.heap:,} B, {has.heap_used:,} in use before", fix
            )
    return None


def _judge(has: Memory, turn: dict[str, Any], said: str) -> Finding:
    ours = turn["before"] - has.heap_used  # of the program that measures
    rest, peak = turn["rest"] - ours, turn["peak"] - ours
    left = has.heap - peak
    shown = f"heap {has.heap:,} B: {rest:,} at rest, {peak:,} at the peak of a turn, {left:,} left"
    if turn["fleet"]:
        shown += ", the ledger's part included"
    if turn["stack"] and has.stack:
        shown += f"; C stack {has.stack:,} B: {turn['stack']:,} at an LLM call"
    if turn["calls"] < _CALLS:
        return warning(
            f"{shown}; the turn ended after {turn['calls']} of {_CALLS} LLM calls: {said}",
            "raise the limits of a turn in settings.py, and deploy",
        )
    if turn["tls"] and left < TLS_KIB * KIB:
        return warning(f"{shown}, and TLS takes some {TLS_KIB * KIB:,} more during a call", _ROOM)
    return ok(shown)
