"""The wheel, as it would be published."""

import email
import email.message
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

FILES = (".py", ".pyi", ".lua", ".sql", ".html", ".css", ".js", ".svg")
PACKAGES = ("budget_core", "budget_cpython")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(
        [sys.executable, *build], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.iterdir()
    assert path.name.startswith("microbudget-")
    assert path.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(path) as wheel:
        yield wheel


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(wheel.read(name))


def test_it_holds_every_module_of_both_packages_the_boards_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in FILES or path.name == "py.typed"
    }
    sources |= {
        f"budget_cpython/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "boards").glob("*/*")
        if path.is_file() and path.name != "secret.py"
    }
    rest = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert rest == sources
    assert {f"{package}/py.typed" for package in PACKAGES} <= rest


def test_beside_them_stand_the_metadata_and_the_licence(wheel: zipfile.ZipFile) -> None:
    beside = {name.partition(".dist-info/")[2] for name in wheel.namelist()} - {""}
    assert beside == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_its_metadata_says_mit_python_3_11_and_no_dependency(
    metadata: email.message.Message,
) -> None:
    assert metadata["Name"] == "microbudget"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in (metadata.get_all("Classifier") or [])
    required = metadata.get_all("Requires-Dist") or []
    assert [line for line in required if "extra ==" not in line] == []


def test_its_metadata_names_its_authors_and_where_to_find_more(
    metadata: email.message.Message,
) -> None:
    assert metadata["Author"] == "The microbudget authors"
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL") or [])
    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith("https://") for url in urls.values())


def test_its_description_is_the_readme(metadata: email.message.Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload(decode=True)
    assert isinstance(description, bytes)
    assert description.strip() == (ROOT / "README.md").read_bytes().strip()


def test_it_works_where_nothing_else_is(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    program = (
        "import budget_cpython as b\n"
        "tracker = b.TurnBudgetTracker()\n"
        "tracker.record({'total_tokens': 3})\n"
        "print(tracker.total_tokens, b.__file__)\n"
        "[getattr(b, name) for name in b.__all__]\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", str(tmp_path / "budget_cpython" / "__init__.py")]
