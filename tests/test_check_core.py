"""What MicroPython lacks is flagged, by its binary or a port's stubs, and nothing else is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

STUBS = ROOT / ".local/stubs/unix"

UNDER_TYPING = "is there under TYPE_CHECKING only"
LACKING = {
    "threads": ("no module threading", "import threading\n\nLOCK = threading.Lock()\n"),
    "dataclass": ("no module dataclasses", "import dataclasses\n\nprint(dataclasses.field)\n"),
    "typing_module": ("no module typing", "import typing\n\nprint(typing.Any)\n"),
    "typing_name": ("no module typing", "from typing import Any\n\nprint(Any)\n"),
    "local_import": ("no module functools", "def f() -> None:\n    import functools\n"),
    "typed_import": (
        f"cast {UNDER_TYPING}",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import cast\n\n"
        "print(cast('int', 1))\n",
    ),
    "types_module": (f"core.shapes {UNDER_TYPING}", "from core.shapes import Lock\n\nLock()\n"),
    "types_name": (
        f"Lock {UNDER_TYPING}",
        "def f(lock: object) -> bool:\n    return lock is Lock\n",
    ),
    "fsync": ("no name os.fsync", "import os\n\nos.fsync(1)\n"),
    "getenv": ("os.getenv is not on every port", "import os\n\nprint(os.getenv('HOME'))\n"),
    "monotonic": ("no name time.monotonic", "import time\n\nprint(time.monotonic())\n"),
    "zfill": ("no attribute zfill", 'print("x".zfill(3))\n'),
    "queue": ("no name asyncio.Queue", "import asyncio\n\nprint(asyncio.Queue())\n"),
    "sort_keys": ('"sort_keys"', "import json\n\nprint(json.dumps({}, sort_keys=True))\n"),
    "flush": ("no keyword print(flush=)", 'print("x", flush=True)\n'),
    "sep": ("no keyword .split(sep=)", 'print("a b".split(sep=" "))\n'),
    "builtin": ("no builtin TimeoutError", "def f() -> None:\n    raise TimeoutError\n"),
    "slash": ("does not compile", "def f(a: int, /) -> int:\n    return a\n"),
    "match": ("does not compile", "match 1:\n    case 1:\n        print()\n"),
    "other_branch": (
        "no name os.fsync",
        "import os\n\nif hasattr(os, 'fsync'):\n    print()\nelse:\n    os.fsync(1)\n",
    ),
}
CLEAN = {
    "types": (
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import Any\n\n"
        "    from core.shapes import Lock\n\n\n"
        'def f(x: "Any", lock: "Lock | None" = None) -> "list[Any]":\n'
        '    found: "list[Any]" = [x, lock]\n    return found\n\n\n'
        "def g(error: TimeoutError) -> TimeoutError:\n"
        "    same: TimeoutError = error\n    return same\n"
    ),
    "detected_module": (
        "def tls() -> object:\n    try:\n        import ssl\n    except ImportError:\n"
        "        return None\n    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n"
        '    context.load_verify_locations("x")\n    return context\n'
    ),
    "detected_builtin": (
        "try:\n    Base: type[Exception] = TimeoutError\nexcept NameError:\n    Base = OSError\n"
    ),
    "detected_name": "import os\n\nif hasattr(os, 'fsync'):\n    os.fsync(1)\n",
    "detected_attribute": (
        "def size(text: str) -> int:\n    try:\n        return len(text.zfill(3))\n"
        "    except AttributeError:\n        return 0\n"
    ),
    "detected_value": (
        "def f(stream: object) -> None:\n"
        '    transport = getattr(stream, "transport", None)\n'
        "    if transport is not None:\n        transport.zfill(width=3)\n"
    ),
    "files": (
        'import os\n\nwith open("x", "wb") as file:\n    file.write(b"1")\n    file.flush()\n'
        'os.rename("x", "y")\nprint(os.stat("y")[6], sorted(os.listdir(".")))\n'
    ),
    "keywords": (
        'import json\nimport sys\n\nprint("a", end="", file=sys.stderr)\n'
        "print(sorted([2, 1], key=lambda x: -x), max([], default=0), dict({}, a=1))\n"
        'print(json.dumps({}, separators=(",", ":")), "{a}".format(a=1))\n'
    ),
    "tasks": (
        "import asyncio\n\n\nasync def f() -> int:\n    task = asyncio.create_task(g())\n"
        "    try:\n        return await asyncio.wait_for(g(), 1)\n"
        "    except asyncio.TimeoutError:\n        task.cancel()\n        raise\n\n\n"
        "async def g() -> int:\n    await asyncio.sleep(0)\n    return 1\n"
    ),
    "classes": (
        "class A:\n    def __init__(self, left: int) -> None:\n        self.left = left\n\n"
        "    @property\n    def spent(self) -> bool:\n        return self.zfill(width=0) == 0\n\n"
        "    def zfill(self, *, width: int) -> int:\n        return self.left or width\n"
    ),
}
TYPES = "import threading\n\n\nclass Lock:\n    lock: threading.Lock\n"


def findings(folder: Path, modules: dict[str, str]) -> list[str]:
    package = folder / "core"
    package.mkdir()
    for name, code in {"__init__": "", "shapes": TYPES, **modules}.items():
        (package / f"{name}.py").write_text(code)
    micropython = run(str(ROOT / "scripts/micropython.sh"))[0]
    core = run(
        *(sys.executable, str(ROOT / "scripts/check_core.py"), "core", "--types-only", "shapes"),
        *("--micropython", micropython, "--stubs", str(STUBS)),
        cwd=folder,
    )
    types = run(
        *(sys.executable, "-m", "mypy", f"--config-file={ROOT / 'mypy-micropython.ini'}"),
        *(f"--custom-typeshed-dir={STUBS}", "--no-error-summary", "--hide-error-context", "core"),
        cwd=folder,
    )
    return core + [line for line in types if ": error:" in line and "shapes.py" not in line]


def run(*command: str, cwd: Path = ROOT) -> list[str]:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    assert STUBS.exists(), "scripts/venv.sh installs the stubs"
    modules = {name: code for name, (_, code) in LACKING.items()}
    return findings(tmp_path_factory.mktemp("lacking"), modules)


@pytest.mark.parametrize("module", LACKING)
def test_what_micropython_lacks_is_flagged(module: str, found: list[str]) -> None:
    why, _ = LACKING[module]
    lines = [line for line in found if line.startswith(f"core/{module}.py:")]
    assert [line for line in lines if why in line], lines


def test_what_micropython_has_or_a_module_detects_is_not_flagged(tmp_path: Path) -> None:
    assert findings(tmp_path, CLEAN) == []
