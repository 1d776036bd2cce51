"""How Sphinx makes the site of these pages: `make docs`."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "scripts")]

from site_links import REPOSITORY, on_site  # noqa: E402 - beside the packages
from site_reference import documented, is_skipped, resolve, signed  # noqa: E402

from budget_cpython.version import version as installed  # noqa: E402

project = "microbudget"
author = "The microbudget authors"
copyright = author  # noqa: A001 - Sphinx names it so
version = release = installed()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.githubpages"]
exclude_patterns = ["theme"]
myst_heading_anchors = 6  # as a code host makes them
nitpicky = True

autodoc_default_options = {
    "members": True,
    "inherited-members": "ABC, BaseException, Exception, Generic, Protocol, dict, tuple",
}
# What extras install: an entry needs its name alone.
autodoc_mock_imports = [
    "agents",
    "anthropic",
    "claude_agent_sdk",
    "crewai",
    "dbos",
    "genai_prices",
    "httptools",
    "httpx",
    "langchain",
    "langchain_core",
    "langgraph",
    "mcp",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "psycopg_pool",
    "pydantic",
    "pydantic_ai",
    "redis",
    "rich",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "uvloop",
]
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
suppress_warnings = ["misc.highlighting_failure"]  # a snippet may leave something out

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "microbudget"
html_baseurl = "https://microbudget.github.io/microbudget/"
html_favicon = "../budget_cpython/page/static/icon.svg"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {
    "source_repository": f"{REPOSITORY}/",
    "source_branch": "main",
    "source_directory": "docs/",
}

linkcheck_timeout = 30
linkcheck_retries = 3
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]  # its pages make them by script


def read(app: Sphinx, name: str, text: list[str]) -> None:
    """Change the links of a page."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        text[0] = on_site(text[0], page)


def included(app: Sphinx, path: Path, _name: str, text: list[str]) -> None:
    """Change the links of a file that a page includes."""
    text[0] = on_site(text[0], (Path(app.srcdir) / path).resolve())


def setup(app: Sphinx) -> None:
    """Have Sphinx call these."""
    app.connect("source-read", read)
    app.connect("include-read", included)
    app.connect("autodoc-process-docstring", documented)
    app.connect("autodoc-process-signature", signed)
    app.connect("autodoc-skip-member", is_skipped)
    app.connect("missing-reference", resolve)
