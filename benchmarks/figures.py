"""One measured figure, and the table that shows many beside their targets."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Something measured; `target` is the most it may be, `None` where it is for comparison.

    `note` says why a target is missed, or was retired.
    """

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether there is a target and the figure is above it."""
        return self.target is not None and self.value > self.target


def ratio(
    name: str, ours: float, theirs: float, target: float | None = None, note: str = ""
) -> Figure:
    """Return how many times theirs ours is; anything above nothing is infinitely many times."""
    return Figure(name, ours / theirs if theirs > 0 else float("inf"), "", target, note)


def table(figures: Sequence[Figure]) -> str:
    """Return one line a figure: its name, its value, its target and whether that is met."""
    rows = [("figure", "value", "target", "")]
    for figure in figures:
        target = "" if figure.target is None else "≤ " + show(figure.target, figure.unit)
        verdict = ("missed" if figure.missed else "met") if target else ""
        rows.append((figure.name, show(figure.value, figure.unit), target, verdict))
    name, value, limit = (max(len(row[column]) for row in rows) for column in range(3))
    return "\n".join(f"{a:{name}}  {b:>{value}}  {c:>{limit}}  {d}".rstrip() for a, b, c, d in rows)


def show(value: float, unit: str) -> str:
    """Return a value as the tables show it, `39,264 B`."""
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.{0 if value >= 100 else 2}f}"
    return f"{number} {unit}".rstrip()
