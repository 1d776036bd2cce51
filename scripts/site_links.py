"""Turn links between files of this repository into links of the site.

A page's links are written for a code host. On the site, one to a page leads to that page, and one
to any other file leads to the file on the code host.
"""

import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/microbudget/microbudget"
# Files outside docs that have a page of their own there.
INCLUDED = {
    "README.md": "/index.md",
    "CHANGELOG.md": "/project/changelog.md",
    "CONTRIBUTING.md": "/project/contributing.md",
    "SECURITY.md": "/project/security.md",
}
_FENCED = re.compile(r"(^ *```.*?^ *```\n?)", re.DOTALL | re.MULTILINE)
_TARGET = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_PICTURES = {".png", ".svg"}


def on_site(text: str, page: Path) -> str:
    """Return a page's Markdown with its links changed; a broken one stays, for Sphinx to find.

    `page` is the file that the text is of, whose links are relative to its folder.
    """
    parts = _FENCED.split(text)
    parts[::2] = [_TARGET.sub(lambda found: _link(found, page), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: "re.Match[str]", page: Path) -> str:
    """Return a link's target on the site."""
    file, anchor = (page.parent / found[1]).resolve(), found[2] or ""
    if not file.is_relative_to(ROOT) or not file.exists():
        return found[0]
    inside = PurePosixPath(file.relative_to(ROOT))
    if included := INCLUDED.get(str(inside)):
        return included + anchor
    if file.is_relative_to(DOCS) and file.suffix in {".md", ".rst", *_PICTURES}:
        return f"/{inside.relative_to('docs')}{anchor}"
    return f"{REPOSITORY}/{'tree' if file.is_dir() else 'blob'}/main/{inside}{anchor}"
