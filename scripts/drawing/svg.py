"""An SVG picture of boxes, lines and text, with colours for light and for dark schemes."""

from html import escape
from typing import Final

LIGHT: Final = {
    "back": "#ffffff",
    "ink": "#1f2328",
    "soft": "#59636e",
    "edge": "#818b98",
    "box": "#f6f8fa",
    "used": "#0969da",
    "held": "#bf8700",
    "good": "#1a7f37",
    "bad": "#cf222e",
    "faint": "#d1d9e0",
}
DARK: Final = {
    "back": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9ea7b3",
    "edge": "#7d8590",
    "box": "#161b22",
    "used": "#58a6ff",
    "held": "#d29922",
    "good": "#3fb950",
    "bad": "#ff7b72",
    "faint": "#343b44",
}
_FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"


def _colours(scheme: dict[str, str]) -> str:
    rules = [f".back{{fill:{scheme['back']}}}", f"text{{fill:{scheme['ink']}}}"]
    rules += [f".box{{fill:{scheme['box']};stroke:{scheme['edge']}}}"]
    rules += [f".line{{stroke:{scheme['edge']}}}", f".head{{fill:{scheme['edge']}}}"]
    rules.append(f".reserve{{fill:{scheme['held']};fill-opacity:0.15}}")
    for name in ("soft", "used", "held", "good", "bad", "faint"):
        rules.append(f".{name}{{fill:{scheme[name]}}}.to-{name}{{stroke:{scheme[name]}}}")
    return "".join(rules)


_STYLE: Final = (
    f"text{{font:14px {_FONT}}}.small{{font-size:13px}}.big{{font-size:16px;font-weight:600}}"
    ".name{font-weight:600}.line{fill:none;stroke-width:1.5}.box{stroke-width:1.5}"
    ".broken{stroke-dasharray:5 4}.wide{stroke-width:3}"
    f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
)
_ARROW: Final = (
    '<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="head" d="M0 0L10 5L0 10z"/></marker>'
)


class Drawing:
    """A picture in the making: what is added later lies above.

    `title` names it, `description` says in words what it shows, for those who cannot see it.
    """

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{_STYLE}</style><defs>{_ARROW}</defs>",
            f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
        ]

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Write a line of text; `anchor` is `start`, `middle` or `end`."""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{_class(kind)}{end}>{escape(text)}</text>')

    def box(
        self, x: float, y: float, width: float, height: float, kind: str = "box", round: int = 0
    ) -> None:
        """Draw a rectangle."""
        corner = f' rx="{round}"' if round else ""
        size = f'width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" {size}{corner}{_class(kind)}/>')

    def line(self, path: str, kind: str = "line", arrow: bool = False) -> None:
        """Draw a path, as SVG writes it, with an arrow's head at its end."""
        head = ' marker-end="url(#arrow)"' if arrow else ""
        self._parts.append(f'<path d="{path}"{_class(kind)}{head}/>')

    def svg(self) -> str:
        """Return the picture as the text of a file."""
        return "\n".join([*self._parts, "</svg>", ""])


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
