"""Align the cells of a table."""

from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return a line for each row; the columns in `numbers`, counted from 0, end flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [">" if at in numbers else "<" for at in range(len(widths))]
    cells = [zip(row, sides, widths, strict=True) for row in rows]
    return [
        "  ".join(f"{text:{side}{width}}" for text, side, width in row).rstrip() for row in cells
    ]
