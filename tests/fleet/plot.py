"""Draw what became of a fleet, as SVG: `python -m tests.fleet.plot DATA FILE`.

The upper part has what was used of a day's budget and what the service counted, held tokens
included; the lower part the difference of the two.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.fleet.campaign import AWAY, HOURS, KILLED, Outcome, Sample

WIDTH, LEFT, RIGHT = 860, 70, 20
UPPER, LOWER = (50, 250), (310, 410)  # from the top
MOST = 2.0  # per cent, of the lower part
USED, COUNTED, STRANDED = "used", "counted", "stranded"
LIGHT = (
    "text{font:13px sans-serif;fill:#222}.small{font-size:11px;fill:#555}.back{fill:#fff}"
    ".away{fill:#eee}.grid{stroke:#ccc}.used{stroke:#1f77b4}.counted{stroke:#d95f02}"
    ".stranded{stroke:#7a3b99}"
)
DARK = (
    "text{fill:#e6edf3}.small{fill:#9ea7b3}.back{fill:#0d1117}.away{fill:#21262d}"
    ".grid{stroke:#343b44}.used{stroke:#58a6ff}.counted{stroke:#f0883e}.stranded{stroke:#c297e8}"
)
STYLE = f"{LIGHT}@media (prefers-color-scheme:dark){{{DARK}}}"
OUTAGES = ((KILLED, "no service"), (AWAY, "no network"))


def draw(outcome: Outcome) -> str:
    """Return the picture."""
    limit, samples = outcome.limit, outcome.samples
    used = [(one.hour, 100 * one.used / limit) for one in samples]
    counted = [(one.hour, 100 * (one.spent + one.held) / limit) for one in samples]
    apart = [(hour, most - least) for (hour, most), (_, least) in zip(counted, used, strict=True)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 450" '
            f'width="{WIDTH}" role="img"><title>{outcome.devices:,} devices on one budget</title>',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="450" class="back"/>',
            *_outages(),
            _text(LEFT, 30, f"A day's budget, {outcome.devices:,} devices, in per cent"),
            *_legend(((USED, "used"), (COUNTED, "counted and held by the service"))),
            *_frame(UPPER, 100, (0, 25, 50, 75, 100)),
            _line(counted, UPPER, 100, COUNTED),
            _line(used, UPPER, 100, USED),
            _text(LEFT, 295, "Counted or held, but not used, in per cent of a day's budget"),
            *_frame(LOWER, MOST, (0, 1, 2)),
            _line(apart, LOWER, MOST, STRANDED),
            *_hours(),
            "</svg>\n",
        ]
    )


def _x(hour: float) -> float:
    return round(LEFT + hour / HOURS * (WIDTH - LEFT - RIGHT), 1)


def _y(value: float, place: tuple[int, int], most: float) -> float:
    top, bottom = place
    return round(bottom - min(value, most) / most * (bottom - top), 1)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{text}</text>'


def _frame(place: tuple[int, int], most: float, ticks: Iterable[float]) -> Iterator[str]:
    for tick in ticks:
        y = _y(tick, place, most)
        yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" class="grid" stroke-width="0.7"/>'
        yield _text(LEFT - 8, y + 4, f"{tick} %", 'text-anchor="end" class="small"')


def _outages() -> Iterator[str]:
    for (begin, end), text in OUTAGES:
        for top, bottom in (UPPER, LOWER):
            size = f'width="{_x(end) - _x(begin):.1f}" height="{bottom - top}"'
            yield f'<rect x="{_x(begin)}" y="{top}" {size} class="away"/>'
        yield _text(_x(begin) + 3, UPPER[0] + 14, text, 'class="small"')


def _legend(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for at, (kind, text) in enumerate(rows):
        x = 430 + at * 80
        yield f'<path d="M{x} 26h24" class="{kind}" stroke-width="2"/>'
        yield _text(x + 30, 30, text)


def _line(
    points: Sequence[tuple[float, float]], place: tuple[int, int], most: float, kind: str
) -> str:
    """Draw a line that is interrupted where nothing was known, and where a day begins."""
    path, before = "", -1.0
    for hour, value in points:
        joins = before >= 0 and hour - before < 0.9 and int(hour / 24) == int(before / 24)
        path += f"{'L' if joins else 'M'}{_x(hour)} {_y(value, place, most)}"
        before = hour
    return f'<path d="{path}" fill="none" class="{kind}" stroke-width="1.8"/>'


def _hours() -> Iterator[str]:
    for hour in range(0, HOURS + 1, 6):
        yield _text(_x(hour), LOWER[1] + 18, f"{hour} h", 'text-anchor="middle" class="small"')


def main(data: Path, target: Path) -> None:
    """Draw the numbers that a campaign wrote."""
    said = json.loads(data.read_text())
    said["samples"] = [Sample(**one) for one in said["samples"]]
    target.write_text(draw(Outcome(**said)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
