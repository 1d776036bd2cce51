"""Stop a run that repeats itself."""

from budget_core.agent.stop import StopReason
from budget_core.agent.stop_condition import StopCondition
from budget_core.checks import check_count
from budget_core.digests import digest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages


class NoProgress(StopCondition):
    """Fires when each of the last `window` turns repeated an earlier turn of the run.

    A turn is repeated when its words, its tool calls and their results are the same, so a circle of
    several turns is found too. Its memory is in the envelope's `notes`, so many runs may share it.
    """

    def __init__(self, window: int = 3) -> None:
        self.window = check_count("window", window) or 1

    def note(self, messages: "Messages", envelope: "Any") -> None:
        """Look at the last turn of a conversation."""
        fingerprint = turn_print(messages)
        if fingerprint is not None:
            prints, repeated = envelope.notes.get(id(self), (set(), 0))
            repeated = repeated + 1 if fingerprint in prints else 0
            prints.add(fingerprint)
            envelope.notes[id(self)] = (prints, repeated)

    def check(self, envelope: "Any") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        if envelope.notes.get(id(self), (None, 0))[1] < self.window:
            return None
        text = f"the last {self.window} turns repeated earlier ones"
        return StopReason(StopReason.NO_PROGRESS, text, scope=envelope.name)


def turn_print(messages: "Messages") -> bytes | None:
    """Return a digest of what the last turn of a conversation did, ids left out.

    Turns with the same words, tool calls and results have the same digest.
    """
    done: list[Any] = []
    for message in reversed(messages):
        role = message.get("role")
        if role not in ("assistant", "tool"):
            return None
        done.append(message.get("content"))
        if role == "assistant":
            for call in message.get("tool_calls") or ():
                done.append(call["function"]["name"])
                done.append(call["function"]["arguments"])
            return digest_of(done)
    return None
