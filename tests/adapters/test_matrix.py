"""The matrix in docs/adapters.md says what the tests show, and nothing else."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import adapter_matrix as matrix
import pytest

from tests.paths import ROOT

PAGE = matrix.PAGE.read_text()
ADAPTERS = sorted(matrix.adapters())


def marked_features(paths: list[Path]) -> Iterator[str]:
    """Yield what the tests of files are marked with, without importing them or their SDK.

    The tests that a file inherits from a module of this folder are among them.
    """
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="feature")):
                    yield from (ast.literal_eval(name) for name in node.args)
                case ast.ImportFrom(module=str(module)) if module.startswith("tests.adapters."):
                    yield from marked_features([ROOT / f"{module.replace('.', '/')}.py"])


def test_the_page_is_as_the_reasons_and_versions_have_it() -> None:
    assert matrix.updated(PAGE, {}) == PAGE, "run scripts/adapter_matrix.py"


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_page_claims_what_a_test_shows(adapter: str) -> None:
    cells = dict(zip(matrix.FEATURES, matrix.cells(PAGE)[adapter], strict=True))
    not_claimed = ("", matrix.NOT_APPLICABLE, matrix.NO)
    claimed = {name for name, cell in cells.items() if cell not in not_claimed}
    shown = set(marked_features(matrix.test_files(adapter)))
    assert claimed <= shown
    assert shown <= set(matrix.FEATURES)
    assert not shown & set(matrix.reasons(adapter)), "tested, and does not apply"


def test_the_reasons_are_about_known_adapters_and_features() -> None:
    table = tomllib.loads(matrix.REASONS.read_text())
    assert set(table) <= set(ADAPTERS)
    for adapter in table:
        for feature, (_, _, reason) in matrix.reasons(adapter).items():
            assert feature in matrix.FEATURES
            assert reason.endswith(".")


def test_a_row_has_what_passed_with_which_version() -> None:
    newest = matrix.adapters()["openai"]["newest"]
    passed = {"lowest": {"stream"}, "newest": {"stream", "wait"}}
    row = matrix.cells(matrix.updated(PAGE, {"openai": passed}))["openai"]
    cells = dict(zip(matrix.FEATURES, row, strict=True))
    assert (cells["stream"], cells["wait"]) == (matrix.TICK, newest)


def test_a_row_stays_while_another_one_is_written() -> None:
    passed = {"lowest": {"stream"}, "newest": {"stream"}}
    page = matrix.updated(matrix.updated(PAGE, {"openai": passed}), {"mcp": {}})
    assert matrix.TICK in matrix.cells(page)["openai"]


def test_a_file_of_tests_belongs_to_the_adapter_with_the_longest_name() -> None:
    for path in matrix.test_files("openai"):
        assert not path.stem.startswith("test_openai_agents")


def test_every_adapter_has_an_extra_whose_lower_bound_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for adapter, versions in matrix.adapters().items():
        (package, *_) = project["optional-dependencies"][adapter]
        assert package.rpartition(">=")[2] == versions["lowest"]


def test_every_adapter_has_a_page() -> None:
    for adapter in ADAPTERS:
        assert matrix.guide(adapter).exists()
