"""What is installed: by mip on a board, by pip on a host. And the image that ROMFS takes."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from threading import Thread

import pytest

from budget_cpython.board.build import LIBRARY, romfs_image
from budget_cpython.board.known_boards import known_boards
from budget_cpython.board.mip import package_files
from tests.board.emulator.client import mpremote
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
def mpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the precompiled core, as a release publishes it."""
    folder = tmp_path_factory.mktemp("mpy") / "made"
    command = [sys.executable, "-m", "budget_cpython.board.mip", "--mpy", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE)
    return folder


@pytest.fixture(scope="module")
def url(mpy: Path) -> Iterator[str]:
    """Where its parent is served."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(mpy.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


MIP = "import mip\nmip.install({!r}, target='/lib')"
COUNTED = """
from budget_core import DailyBudgetConfig, DailyBudgetTracker
day = DailyBudgetTracker(DailyBudgetConfig(1000))
day.record({"total_tokens": 600})
print(day.total_tokens)
"""


def compiled(room: str) -> set[str]:
    """Return the files that a package of the precompiled core puts on a board."""
    paths = (Path(LIBRARY, name).with_suffix(".mpy") for name in modules_for_boards())
    return {str(path) for path in paths if not room or str(path.parent) == f"/lib{room}"}


def check_installed(cli: Cli, mpy: Path, room: str) -> None:
    found = library(digests(cli.board))
    assert set(found) == compiled(room)
    for name, digest in found.items():
        made = mpy / name.removeprefix("/lib/")
        assert sha256(made.read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("room", ["", "/budget_core", "/budget_core/ledger"])
def test_mpremote_installs_a_precompiled_core_from_any_place_that_serves_it(
    new_cli: Cli, url: str, mpy: Path, room: str
) -> None:
    port, package = new_cli.board.port, f"{url}/{mpy.name}{room}/package.json"
    mpremote(port, "mip", "install", "--target", "/lib", package)
    check_installed(new_cli, mpy, room)
    if room != "/budget_core/ledger":
        assert mpremote(port, "exec", COUNTED) == "600\n"


def test_the_mip_of_a_board_installs_it_from_the_place_that_is_named(
    new_cli: Cli, url: str, mpy: Path
) -> None:
    command = [sys.executable, "-m", "budget_cpython.board.mip", "--mpy", str(mpy.parent / "named")]
    subprocess.run([*command, "--base", f"{url}/named"], cwd=ROOT, check=True, timeout=PATIENCE)
    port = new_cli.board.port
    mpremote(port, "exec", MIP.format(f"{url}/named/budget_core/package.json"))
    check_installed(new_cli, mpy, "/budget_core")
    assert mpremote(port, "exec", COUNTED) == "600\n"


def test_precompiled_modules_replace_no_file(mpy: Path) -> None:
    command = [sys.executable, "-m", "budget_cpython.board.mip", "--mpy", str(mpy)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 2
    assert "exists: name a new or an empty folder" in run.stderr


def test_a_release_publishes_the_bytecode_as_a_commit_of_its_own(mpy: Path, tmp_path: Path) -> None:
    job = (ROOT / ".github/workflows/publish.yml").read_text().partition("  bytecode:\n")[2]
    publish = dedent(job.partition("env:\n")[2].partition("run: |\n")[2].partition("\n\n")[0])
    names = dict(re.findall(r"(GIT_\w+): (\S+)", job))
    assert len(names) == 4
    environment = {**os.environ, **names, "GITHUB_REF_NAME": "v1.2.3"}
    checkout = tmp_path / "checkout"
    shutil.copytree(mpy, checkout / "mpy")
    setup = "git init -q --bare ../origin && git init -q && git remote add origin ../origin"
    script = f"{setup}\n{publish}"
    subprocess.run(["/bin/sh", "-e", "-c", script], cwd=checkout, env=environment, check=True)
    for name in ("mpy", "mpy-v1.2.3"):
        command = f"git -C {tmp_path}/origin ls-tree -r --name-only {name}"
        listed = subprocess.check_output(["/bin/sh", "-c", command], text=True).split()
        assert listed == sorted(str(path.relative_to(mpy)) for path in mpy.rglob("*.*"))


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
