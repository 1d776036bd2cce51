"""Reset a board that hangs, valves closed: a watchdog with more patience than the chip's own."""

import asyncio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Watchdog:
    """Resets the board once the program has made no step for `patience_s` seconds.

    A timer calls `tick` each second, which feeds the chip's watchdog, because that one waits for
    eight seconds at most on some chips, and a turn takes minutes. `start` begins it and returns it,
    with its `feed()`. It cannot be stopped, and resets the board in the midst of a deploy too. So
    it begins `grace_s` seconds after the program.
    """

    def __init__(self, start: "Callable[[], Any]", patience_s: int, grace_s: int = 60) -> None:
        self.start = start
        self.patience_s = self.left_s = patience_s
        self.grace_s = grace_s
        self.chip: Any = None

    def step(self) -> None:
        """Say that the program is at work."""
        self.left_s = self.patience_s

    async def wait(self) -> None:
        """Make steps until it is cancelled: the program waits for a line, and its loop runs."""
        while True:
            self.step()
            await asyncio.sleep(1)

    def tick(self, timer: "Any" = None) -> None:
        """Let a second pass."""
        self.grace_s -= 1
        self.left_s -= 1
        if self.chip is None:
            if self.grace_s < 0:
                self.chip = self.start()
        elif self.left_s >= 0:
            self.chip.feed()
