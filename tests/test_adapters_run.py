"""`scripts/adapters.py` tells what came of the tests of an adapter, and writes it down."""

import subprocess
import sys
from pathlib import Path

import adapter_matrix as matrix
import adapters
import pytest
import three_calls

from tests.paths import ROOT

pytestmark = pytest.mark.slow  # only `make test-all` and `make adapters` run the script

SHOWS_STREAM = """\
def test_shows_a_stream(request) -> None:
    request.node.user_properties.append(("feature", "stream"))
"""
FAILS = SHOWS_STREAM + "    assert False\n"
WARNS = """\
import warnings


def test_warns(request) -> None:
    request.node.user_properties.append(("feature", "stream"))
    warnings.warn_explicit("old", DeprecationWarning, "file", 1, {module!r})
"""
SKIPS = "import pytest\n\n\ndef test_skips() -> None:\n    pytest.skip()\n"
ADAPTER = "crewai"  # not installed beside the tests: no snippet of its page runs


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the page, and this Python in place of an environment."""
    page = tmp_path / "adapters.md"
    page.write_text(matrix.updated(matrix.PAGE.read_text(), {ADAPTER: {}}))
    monkeypatch.setattr(matrix, "PAGE", page)
    monkeypatch.setattr(matrix, "test_files", lambda _: [tmp_path / "test_a.py"])
    monkeypatch.setattr(three_calls, "TESTS", tmp_path)
    monkeypatch.setattr(adapters, "complaints_about", lambda *_: "")
    monkeypatch.setattr(adapters, "_set_up", lambda _: sys.executable)
    return page


def try_with(test: str, page: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    (page.parent / "test_a.py").write_text(test)
    monkeypatch.setattr(sys, "argv", ["adapters.py", ADAPTER, *arguments])
    return adapters.main()


def stream_cell(page: Path) -> str:
    row = matrix.cells(page.read_text())[ADAPTER]
    return row[matrix.FEATURES.index("stream")]


def test_a_feature_that_both_versions_show_is_ticked(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert try_with(SHOWS_STREAM, page, monkeypatch) == 0
    assert stream_cell(page) == matrix.TICK
    lines = capsys.readouterr().out.splitlines()
    counts = [f"crewai {version}: 1 passed, 0 failed, 1 skipped" for version in versions()]
    assert [line for line in lines if line] == counts


def test_a_test_that_fails_is_shown_and_writes_nothing(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert try_with(FAILS, page, monkeypatch) == 1
    assert stream_cell(page) == ""
    said = capsys.readouterr().out
    assert "assert False" in said
    assert f"FAILED: 1 of the tests on crewai {versions()[0]}" in said


def test_an_error_in_the_types_counts_as_a_failed_test(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapters, "complaints_about", lambda *_: "wrong type\n")
    assert try_with(SHOWS_STREAM, page, monkeypatch) == 1
    said = capsys.readouterr().out
    assert "wrong type" in said
    assert f"FAILED: 1 of the tests on crewai {versions()[1]}" in said


def test_the_types_of_an_adapter_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "module.py"
    monkeypatch.setattr(matrix, "modules", lambda _: [module])
    module.write_text("import os\n\nos.getpid(1)\n")
    said = adapters.complaints_about(ADAPTER, sys.executable)
    assert "Too many arguments" in said
    module.write_text("import os\n\nos.getpid()  # type: ignore\n")
    assert adapters.complaints_about(ADAPTER, sys.executable) == ""


def test_tests_that_were_all_skipped_fail(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert try_with(SKIPS, page, monkeypatch) == 1
    assert "FAILED: no test was run on crewai" in capsys.readouterr().out


def test_one_version_alone_writes_nothing(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert try_with(SHOWS_STREAM, page, monkeypatch, "--newest") == 0
    assert stream_cell(page) == ""


def test_a_part_of_the_tests_writes_nothing(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert try_with(SHOWS_STREAM, page, monkeypatch, "-k", "shows") == 0
    assert stream_cell(page) == ""


@pytest.mark.parametrize(
    ("module", "code"),
    [("an_sdk.models", 0), ("budget_cpython.adapters.call", 1), ("tests.adapters.test_x", 1)],
)
def test_a_warning_fails_if_it_is_about_our_code(
    page: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: int
) -> None:
    assert try_with(WARNS.format(module=module), page, monkeypatch, "--newest") == code


def test_an_environment_that_cannot_be_made_fails(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapters, "_set_up", lambda _: "")
    assert try_with(SHOWS_STREAM, page, monkeypatch) == 1
    assert "no environment" in capsys.readouterr().out


def test_an_unknown_adapter_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["adapters.py", "opnai"])
    with pytest.raises(SystemExit):
        adapters.main()
    assert "no adapter opnai; there are openai, anthropic" in capsys.readouterr().err


def test_the_script_says_how_it_is_used() -> None:
    script = ROOT / "scripts/adapters.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: scripts/adapters.sh PYTHON")


def versions() -> list[str]:
    return [matrix.adapters()[ADAPTER][version] for version in matrix.VERSIONS]
