"""Make the site of the documentation in .local/site, and open it in a browser.

    python scripts/make_site.py [--no-open] [--links]

Any warning is an error: a link to no page, heading or file, a page that nothing leads to, a name in
the reference that does not exist.
"""

import argparse
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LOCAL = ROOT / ".local"


def make(
    site: Path, builder: str = "html", pages: Path = DOCS
) -> "subprocess.CompletedProcess[str]":
    """Make the site in a folder, with Sphinx's doctrees beside it; return what came of it."""
    options = [
        "--builder",
        builder,
        "--fail-on-warning",
        "--nitpicky",
        "--quiet",
        "--fresh-env",
        "--jobs",
        "auto",
    ]
    places = ["--conf-dir", DOCS, "--doctree-dir", site.with_name("doctrees"), pages, site]
    command = [sys.executable, "-m", "sphinx", *options, *map(str, places)]
    return subprocess.run(  # noqa: S603 - our own pages
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def has_screen() -> bool:
    """Return whether a browser can be shown."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, variables))


def main(arguments: list[str] | None = None) -> int:
    """Make the site from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--no-open", action="store_true", help="print the path only")
    parser.add_argument("--links", action="store_true", help="ask for every external link instead")
    options = parser.parse_args(arguments)
    site = LOCAL / ("links" if options.links else "site")
    made = make(site, "linkcheck" if options.links else "html")
    print(made.stdout, end="")
    if made.returncode or options.links:
        return made.returncode
    page = site / "index.html"
    print(page)
    if not options.no_open and has_screen():
        webbrowser.open(page.as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
