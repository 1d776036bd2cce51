"""What the site's API reference adds to Sphinx: links, and which names both packages have."""

import re
from textwrap import indent
from typing import Any

from public_names import core_homes

import budget_cpython

_CODE = re.compile(r"`?\bdocs/(\w+)\.md\b`?|`([^`]+)`")
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OURS = ("budget_core.", "budget_cpython.")


def as_rst(text: str) -> str:
    """Return a docstring of Markdown as reStructuredText; public names become links."""
    prose, *fenced = _FENCED.split(text)
    parts = [_with_code(prose)]
    for language, block, after in zip(fenced[::3], fenced[1::3], fenced[2::3], strict=True):
        parts += [f".. code-block:: {language}\n\n", indent(block, "    "), _with_code(after)]
    return "".join(parts)


def _with_code(text: str) -> str:
    """Return a text with its `code` as literals and links."""

    def code(found: "re.Match[str]") -> str:
        if found[1]:
            return f":doc:`/{found[1]}`"
        said = re.sub(r"\s+", " ", found[2])
        after = "\\ " if text[found.end() :][:1].isalnum() else ""
        name = said.removesuffix("()")
        is_word = said.isalpha() and said.islower()  # an argument, such as `budget`
        if name in budget_cpython.__all__ and not is_word:
            return f":py:obj:`{said} <budget_cpython.{name}>`{after}"
        return f"``{said}``{after}"

    return _CODE.sub(code, text)


def documented(
    _app: Any, _kind: str, name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Make a docstring reStructuredText, and say where else its name can be imported from."""
    lines[:] = as_rst("\n".join(lines)).splitlines()
    package, _, short = name.rpartition(".")
    if package == "budget_cpython" and short in core_homes():
        lines += ["", "*Also in* ``budget_core``."]


def signed(
    _app: Any, _kind: str, _name: str, _value: Any, _options: Any, signature: str | None, to: str
) -> tuple[str | None, str]:
    """Return a signature that Sphinx can read: a dataclass has a default that is no Python."""
    return signature and signature.replace("<factory>", "..."), to


def is_skipped(_app: Any, _kind: str, name: str, value: Any, skip: bool, _options: Any) -> bool:
    """Leave out what only repeats: the fields of a named tuple, and attributes that are classes."""
    is_field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return skip or is_field or (name.isupper() and isinstance(value, type))


def resolve(app: Any, env: Any, node: Any, text: Any) -> Any:
    """Resolve a type in a signature: a public name to its entry, another to its name alone.

    A reference in a text that leads to nothing stays what it is, an error.
    """
    if node.get("refdomain") != "py" or node.get("reftype") not in ("class", "data"):
        return None
    target = node["reftarget"]
    short = target.rpartition(".")[2]
    if short in budget_cpython.__all__ and (target == short or target.startswith(_OURS)):
        name = f"budget_cpython.{short}"
        python = env.domains["py"]
        return python.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, text)
    return text
