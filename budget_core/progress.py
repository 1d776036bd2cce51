"""Tell a run that goes on from one that goes in circles."""

from budget_core.limits import check_count
from budget_core.stop import StopCondition, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


class NoProgress(StopCondition):
    """Fires when each of the last `window` turns did what an earlier turn of the run had done.

    That is the same words, the same tool calls, and the same results, so that a circle of several
    turns is seen too.
    """

    def __init__(self, window: int = 3) -> None:
        self.window = check_count("window", window) or 1

    def check(self, seen: "Bounds") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        prints = seen.prints
        first = len(prints) - self.window
        if first < 1:
            return None
        before = prints[:first]
        for one in prints[first:]:
            if one not in before:
                return None
        text = f"the last {self.window} turns repeated earlier ones"
        return StopReason(StopReason.NO_PROGRESS, text, scope=seen.name)


def turn_print(messages: "Messages") -> int | None:
    """Return a number for what the last turn of a conversation did, ids left out.

    Turns that said the same, called the same tools and were told the same have the same one.
    """
    done: list[str] = []
    for message in reversed(messages):
        done.append(repr(message.get("content")))
        if message.get("role") == "assistant":
            for call in message.get("tool_calls") or ():
                done.append(repr(sorted(call["function"].items())))
            return hash("\n".join(done))
        if message.get("role") != "tool":
            return None
    return None
