"""The site of the documentation: it is whole, and its links lead somewhere."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from make_site import DOCS, make
from site_links import REPOSITORY, on_site
from site_reference import as_rst

import budget_cpython
from tests.paths import ROOT

PAGES = sorted(path for kind in ("md", "rst") for path in DOCS.rglob(f"*.{kind}"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md"))]
LONG = 2_000  # words: what is read from end to end takes ten minutes at most
DIRECTIVE = re.compile(r"^\.\. (\w+):: (\S+)$", re.MULTILINE)
TOCTREE = re.compile(
    r"```\{toctree\}\n(.*?)```|^\.\. toctree::\n((?: [^\n]*\n|\n)*)", re.DOTALL | re.MULTILINE
)


@pytest.mark.slow
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    made = make(tmp_path / "site")
    assert (made.returncode, made.stdout) == (0, "")
    for page in PAGES:
        assert (tmp_path / "site" / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_each_public_name_is_in_the_reference_once() -> None:
    listed: Counter[str] = Counter()
    for page in (DOCS / "api").glob("*.rst"):
        module = ""
        for directive, name in DIRECTIVE.findall(page.read_text()):
            if directive == "currentmodule":
                module = name
            elif module == "budget_cpython" and "." not in name:
                listed[name] += 1
    assert listed == Counter(budget_cpython.__all__)


@pytest.mark.parametrize(
    ("docstring", "there"),
    [
        ("A `Price` of it.", "A :py:obj:`Price <budget_cpython.Price>` of it."),
        ("All `ValueError`s of\n`a\nb`.", "All ``ValueError``\\ s of\n``a b``."),
        ("An argument `budget`.", "An argument ``budget``."),
        ("See docs/ledger.md, `docs/money.md`.", "See :doc:`/ledger`, :doc:`/money`."),
        ("So:\n\n```py\nf(`x`)\n```", "So:\n\n.. code-block:: py\n\n    f(`x`)\n"),
    ],
)
def test_a_docstring_of_markdown_becomes_restructured_text(docstring: str, there: str) -> None:
    assert as_rst(docstring) == there


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("[there](gone.md)", "'gone.md'"),
        ("[there](../gone.py)", "'../gone.py'"),
        ("[there](other.md#nowhere)", "'nowhere'"),
        ("[there](#nowhere)", "'nowhere'"),
    ],
)
def test_a_broken_link_is_an_error(tmp_path: Path, link: str, complaint: str) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text(f"# One\n\n{link}\n\n```{{toctree}}\nother\n```\n")
    (pages / "other.md").write_text("# Other\n\n[back](index.md#one)\n")
    made = make(tmp_path / "site", pages=pages)
    assert made.returncode
    (complained,) = made.stdout.strip().splitlines()
    assert complaint in complained


def test_each_page_is_in_exactly_one_toctree() -> None:
    listed: Counter[str] = Counter()
    for page in PAGES:
        for markdown, rst in TOCTREE.findall(page.read_text()):
            names = [line.strip() for line in (markdown or rst).splitlines()]
            names = [name for name in names if name and not name.startswith(":")]
            listed.update((page.parent / name).relative_to(DOCS).as_posix() for name in names)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES}
    assert listed == Counter(pages - {"index"})


def words(text: str) -> int:
    """Return how many words a page has beside its code and its figures."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return sum(any(map(str.isalpha, word)) for word in prose.split())


def test_what_is_no_reference_is_short() -> None:
    trees = re.findall(r":caption: (\w+)\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    read_through = [tree for caption, tree in trees if caption not in ("Reference", "Project")]
    names = [name for tree in read_through for name in tree.split() if name[0] != ":"]
    assert len(names) >= 10
    pages = [DOCS / f"{name}.md" for name in names] + sorted((DOCS / "sdks").glob("*.md"))
    long = {page.name for page in pages if words(page.read_text()) > LONG}
    assert not long
    assert words((DOCS / "ledger.md").read_text()) > LONG  # which is reference


def test_every_external_link_is_well_formed() -> None:
    for page in TEXTS:
        for link in re.findall(r"\]\((\w+:[^)]*)\)|<(https?:[^>]*)>", page.read_text()):
            url = urlsplit("".join(link))
            assert url.scheme == "https", (page.name, link)
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", url.netloc), (page.name, link)


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("docs/serve.md", "ledger.md#leases", "/ledger.md#leases"),
        ("docs/serve.md", "sdks/openai.md", "/sdks/openai.md"),
        ("docs/sdks/openai.md", "../money.md", "/money.md"),
        ("docs/serve.md", "../CONTRIBUTING.md#rules", "/project/contributing.md#rules"),
        ("docs/serve.md", "../README.md", "/index.md"),
        ("CHANGELOG.md", "docs/money.md#prices", "/money.md#prices"),
        ("README.md", "docs/fleet.svg", "/fleet.svg"),
        ("docs/serve.md", "../examples/garden", f"{REPOSITORY}/tree/main/examples/garden"),
        (
            "docs/serve.md",
            "../budget_core/call.py#L9",
            f"{REPOSITORY}/blob/main/budget_core/call.py#L9",
        ),
        ("docs/serve.md", "#keys", "#keys"),
        ("docs/serve.md", "https://example.com/a.md", "https://example.com/a.md"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(page: str, link: str, there: str) -> None:
    assert on_site(f"See [it]({link}), and so on.", ROOT / page) == f"See [it]({there}), and so on."


def test_links_in_fenced_code_stay() -> None:
    code = "```py\ncall[0](money.md)\n```\n"
    assert on_site(code, ROOT / "docs/serve.md") == code
