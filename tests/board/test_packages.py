"""What is installed: by mip on a board, by pip on a host. And the image that ROMFS takes."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from budget_cpython.board.build import LIBRARY, romfs_image
from budget_cpython.board.known_boards import known_boards
from budget_cpython.board.mip import package_files
from tests.paths import ROOT

from .support import PATIENCE, Cli, digests, library

LEFT_OUT = (".git", ".local", ".hypothesis", "*cache*", "__pycache__", "tests*", "dist")
KEY = "sk-nobody-may-see-this"


def modules_for_boards() -> set[str]:
    core = ROOT / "budget_core"
    found = [path for path in core.rglob("*.py") if path.name != "_types.py"]
    return {path.relative_to(core).as_posix() for path in found}


def test_package_json_lists_every_module_that_a_board_can_load() -> None:
    for path, text in package_files().items():
        assert path.read_text() == text, "run: python -m budget_cpython.board.mip"
    everything = (ROOT / "package.json").read_text()
    for name in modules_for_boards():
        assert f'["budget_core/{name}", "budget_core/{name}"]' in everything
    assert everything.count("budget_core/") == 2 * len(modules_for_boards())


@pytest.mark.parametrize(
    "folder", ["budget_core", "budget_core/ledger", pytest.param("", marks=pytest.mark.slow)]
)
def test_mpremote_mip_installs_all_the_trackers_or_a_room(new_cli: Cli, folder: str) -> None:
    port = new_cli.board.port
    command = [sys.executable, "-m", "mpremote", "connect", port, "mip", "install"]
    subprocess.run(
        [*command, "--target", "/lib", "package.json"],
        cwd=ROOT / folder,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    wanted = modules_for_boards()
    if folder == "budget_core":
        wanted = {name for name in wanted if "/" not in name}
    elif folder:
        wanted = {name for name in wanted if name.startswith("ledger/")}
    installed = library(digests(new_cli.board))
    assert set(installed) == {f"{LIBRARY}/{name}" for name in wanted}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a checkout in which somebody keeps secrets."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (checkout / "boards/unix/secret.py").write_text(f"API_KEY = {KEY!r}\n")
    for name in ("secret.mpy", "secret.py.bak"):
        (checkout / "boards/unix" / name).write_text(KEY)
    build = ["-m", "build", "--wheel", "--sdist", "--no-isolation", "--outdir", str(folder)]
    build.append(str(checkout))
    subprocess.run([sys.executable, *build], check=True, capture_output=True, timeout=300)
    (path,) = folder.glob("*.whl")
    return path


def test_a_wheel_carries_the_boards_and_no_secrets(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        assert not [name for name in names if KEY.encode() in opened.read(name)]
    boards = {
        path for path in (ROOT / "boards").rglob("*") if path.suffix in (".py", ".md", ".toml")
    }
    wanted = {
        f"budget_cpython/{path.relative_to(ROOT).as_posix()}"
        for path in boards
        if not path.name.startswith("secret.")
    }
    assert {name for name in names if name.startswith("budget_cpython/boards/")} == wanted
    assert "budget_cpython/boards/unix/secret_example.py" in wanted


def test_a_source_distribution_carries_no_secrets(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    boards = {name.rpartition("/boards/unix/")[2] for name in names if "/boards/unix/" in name}
    assert "secret_example.py" in boards
    assert not [name for name in boards if name.startswith("secret.")]


def test_from_a_wheel_the_command_knows_the_boards(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path)  # noqa: S202 - our own
        (entry,) = [name for name in opened.namelist() if name.endswith("entry_points.txt")]
        assert "microbudget = budget_cpython.cli:main" in opened.read(entry).decode()
    done = subprocess.run(
        [sys.executable, "-m", "budget_cpython.cli", "board", "list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    listed = set(done.stdout.split())
    assert set(known_boards()) <= listed


def test_an_image_holds_folders_files_and_their_data(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/b.mpy").write_bytes(b"M" * 300)
    (tmp_path / "a").write_bytes(b"")
    data = b"\x02\x82\x2c" + b"M" * 300
    file = b"\x05\x82\x35" + b"\x05b.mpy" + data
    folder = b"\x04\x82\x3c" + b"\x03lib" + file
    assert romfs_image(tmp_path) == b"\xd2\xcd\x31\x82\x45" + b"\x05\x04\x01a\x02\x00" + folder
