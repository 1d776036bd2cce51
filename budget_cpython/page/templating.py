"""The templates of the page and of reports, and the words that they use."""

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from budget_core.ledger.window_words import window_in_words
from budget_core.log import printable
from budget_core.until import stamp, until
from budget_cpython.ops.words import amount_words, axis_words, limit_text, short_amount
from budget_cpython.page.sentences import amounts_words, change, who

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def filled(template: str, **values: Any) -> str:
    """Return a template with values in it, whose text is escaped."""
    return _environment().get_template(template).render(values)


@lru_cache(1)
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("budget_cpython.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        amount=lambda amount, axis: short_amount(axis, amount),
        amount_words=lambda amount, axis: amount_words(axis, amount),
        amounts=amounts_words,
        axis=axis_words,
        limit=lambda row: limit_text(row.axis, row.limit, row.window),
        window=window_in_words,
        stamp=stamp,
        iso=lambda at: stamp(at)[:-4].replace(" ", "T") + "Z",
        until=until,
        span=span,
        plain=printable,
        change=change,
        who=who,
    )
    found.globals["version"] = _version()
    return found


def span(seconds: int) -> str:
    """Return a time as its largest unit, as in `12 s`, `4 min`, `3 h` and `2 d`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


@lru_cache
def content(name: str) -> bytes:
    """Return a file of those in `STATIC`."""
    return (files("budget_cpython.page") / "static" / name).read_bytes()


def _version() -> str:
    """Return what changes in the files' URLs when a file does: browsers keep them for a day."""
    return hashlib.sha256(b"".join(map(content, STATIC))).hexdigest()[:12]
