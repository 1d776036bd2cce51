"""Check a board's memory: the heap of a turn against a scripted model, and the C stack."""

from typing import Any

from budget_cpython.board.device import Device
from budget_cpython.board.doctor.finding import Finding, absent, fails, ok, warning
from budget_cpython.board.doctor.network import PATIENCE_S
from budget_cpython.board.doctor.probe import probe
from budget_cpython.board.errors import DeviceError
from budget_cpython.board.needs import KIB, TLS_KIB

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
    heap = probe(device, "heap")
    if heap is None:
        return absent("its firmware does not tell how much heap is free")
    try:
        turn = probe(device, "turn", PATIENCE_S)
    except DeviceError as error:
        if finding := _why_ended(str(error), heap):
            return finding
        raise
    if "absent" in turn:
        return absent(turn["absent"])
    said = " ".join(turn["said"])
    return _why_ended(said, heap) or _judge(device, heap, turn, said)


def _why_ended(said: str, heap: list[int]) -> Finding | None:
    for words, (what, fix) in _ENDS.items():
        if words in said:
            return fails(f"{what}; the heap has {sum(heap):,} B, {heap[0]:,} in use before", fix)
    return None


def _judge(device: Device, heap: list[int], turn: dict[str, Any], said: str) -> Finding:
    used, free = heap
    ours = turn["before"] - used  # of the program that measures
    rest, peak = turn["rest"] - ours, turn["peak"] - ours
    left = used + free - peak
    shown = (
        f"heap {used + free:,} B: {rest:,} at rest, {peak:,} at the peak of a turn, {left:,} left"
    )
    if turn["fleet"]:
        shown += ", the ledger's part included"
    if turn["stack"]:
        shown += f"; C stack {probe(device, 'stack'):,} B: {turn['stack']:,} at an LLM call"
    if turn["calls"] < _CALLS:
        return warning(
            f"{shown}; the turn ended after {turn['calls']} of {_CALLS} LLM calls: {said}",
            "raise the limits of a turn in settings.py, and deploy",
        )
    if turn["tls"] and left < TLS_KIB * KIB:
        return warning(f"{shown}, and TLS takes some {TLS_KIB * KIB:,} more during a call", _ROOM)
    return ok(shown)
