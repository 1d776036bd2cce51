"""Lines with colours for a terminal, plain ones elsewhere; bars, and columns that fit."""

import os
import sys
from collections.abc import Container, Iterable, Sequence
from typing import Any

from budget_cpython.ops.forecast import NEAR, OVER, LimitStatus

Line = list[tuple[str, str]]  # texts with their styles
HEAD, FAINT = "bold", "dim"
# 256 colours that are seen on dark and on light terminals
RED, ORANGE, GREEN, BLUE = "bold color(160)", "color(166)", "color(28)", "color(33)"
NARROW = 110  # columns: below it less is shown
_BLOCKS = "█▓░"
_PLAIN = "#=."


class Screen:
    """Standard output: lines with colours if it is a terminal and `rich` is installed.

    `width` is `None` off a terminal, where nothing is cut. `fancy` says whether its encoding has
    characters such as blocks.
    """

    def __init__(self) -> None:
        self._console = _console()
        self.width: int | None = None
        if self._console is not None:
            self.width = self._console.width
        elif sys.stdout.isatty():
            self.width = os.get_terminal_size(sys.stdout.fileno()).columns
        self.fancy = self.width is not None and _has_blocks()

    @property
    def is_narrow(self) -> bool:
        """Whether there is no room for all columns."""
        return self.width is not None and self.width < NARROW

    def show(self, lines: Iterable[Line]) -> None:
        """Print lines; the terminal wraps those that are too long."""
        for line in lines:
            if self._console is None:
                print(plain_text(line))
            else:
                self._console.print(as_rich(line), soft_wrap=True)


def _console() -> Any:
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=sys.stdout, highlight=False)


def _has_blocks() -> bool:
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def as_rich(line: Line) -> Any:
    """Return a line as a `rich.text.Text`."""
    from rich.text import Text

    return Text.assemble(*line, end="")


def plain_text(line: Line) -> str:
    """Return the text of a line without its styles."""
    return "".join(text for text, _ in line).rstrip()


def cell(text: str, style: str = "") -> Line:
    """Return a text as a line, or as a cell of one."""
    return [(text, style)]


def width_of(line: Line) -> int:
    """Return the number of characters of a line."""
    return sum(len(text) for text, _ in line)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, an ellipsis for what its middle had."""
    if len(text) <= most:
        return text
    first = (most - 1) // 2
    return f"{text[:first]}…{text[len(text) - (most - 1 - first) :]}"


def lay_out(
    head: Sequence[str],
    rows: Sequence[Sequence[Line]],
    sides: str,
    width: int | None,
    cuts: bool = False,
    left_out: Container[str] = (),
) -> list[Line]:
    """Return a line for the head and for each row, in aligned columns, some of them `left_out`.

    `sides` has `>` for a column that ends flush right, and `<` for others. A first cell that would
    make the lines wider than `width` has a line of its own, or with `cuts` loses its middle.
    """
    kept = [at for at, name in enumerate(head) if name not in left_out]
    whole = [[cell(text, FAINT) for text in head], *rows]
    table = [[row[at] for at in kept] for row in whole]
    widths = [max(width_of(row[at]) for row in table) for at in range(len(kept))]
    if width is not None:
        rest = sum(widths[1:]) + 2 * len(widths[1:])
        widths[0] = min(widths[0], max(8, width - rest))
    found: list[Line] = []
    for row in table:
        first, *others = row
        if cuts:
            first = [(cut(text, widths[0]), style) for text, style in first]
        if width_of(first) > widths[0]:
            found.append(first)
            first = cell("")
        line: Line = []
        for at, one in enumerate([first, *others]):
            is_right = sides[kept[at]] == ">"
            gap = " " * (widths[at] - width_of(one))
            between = [("  ", "")] if at else []
            line += [*between, (gap, ""), *one] if is_right else [*between, *one, (gap, "")]
        found.append(line)
    return found


def bar(status: LimitStatus, size: int, fancy: bool) -> Line:
    """Return a bar of what is spent and held of a limit, and the percent that is spent."""
    balance = status.balance
    if status.percent is None:
        return [(" " * size, ""), ("    -", FAINT)]
    used, kept, rest = tuple(_BLOCKS if fancy else _PLAIN)
    spent = _filled(balance.spent, balance.limit, size)
    held = _filled(balance.spent + balance.held, balance.limit, size) - spent
    style = style_of(status) or GREEN
    percent = f"{min(status.percent, 9999):>4}%"
    return [
        (used * spent, style),
        (kept * held, BLUE),
        (rest * (size - spent - held), FAINT),
        (percent, style_of(status)),
    ]


def _filled(amount: int, limit: int | None, size: int) -> int:
    """Return how much of a bar is filled: all of it only for all of the limit."""
    return min(size, max(1, amount * size // max(limit or 0, 1))) if amount else 0


def style_of(status: LimitStatus) -> str:
    """Return the style of a limit: red if it is over, orange if it soon will be."""
    if status.state == OVER:
        return RED
    return ORANGE if status.ends_early or status.state == NEAR else ""


_RISING = "▁▂▃▄▅▆▇█"
_RISING_PLAIN = "_.-=+*#@"


def sparkline(values: Sequence[int], most: int, fancy: bool) -> str:
    """Return a character for each value, the highest for `most` and above, a blank for nothing."""
    levels = _RISING if fancy else _RISING_PLAIN
    last = len(levels) - 1
    return "".join(
        levels[min(last, value * last // max(1, most))] if value else " " for value in values
    )
