"""Run the folder agent on MicroPython and then on CPython.

Without OPENAI_BASE_URL in the environment it starts a scripted endpoint on loopback for both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main() -> int:
    """Run the demo; return the first exit code that is not 0."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("folder", nargs="?", default=str(ROOT / "docs"), help="default: docs")
    parser.add_argument("--question", help="what to ask about the folder's files")
    parser.add_argument("--no-warnings", action="store_true", help="see a cut-off instead")
    parser.add_argument("--only", choices=("micropython", "cpython"), help="one runtime only")
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - a machine's own may be older
        why = "error: Python 3.11 or later is needed; name one: make demo PYTHON=python3.12"
        print(why, file=sys.stderr)
        return 2
    arguments = ["--no-warnings"] if options.no_warnings else []
    arguments += [options.folder] + ([options.question] if options.question else [])
    with ExitStack() as stack:
        environment = dict(os.environ)
        if not environment.get("OPENAI_BASE_URL"):
            environment |= _scripted(stack)
        for name, runtime in _runtimes(options.only):
            print(f"--- {name}", flush=True)
            command = [runtime, str(HERE / "main.py"), *arguments]
            code = subprocess.run(command, env=environment, check=False).returncode  # noqa: S603
            if code:
                return code
    return 0


def _scripted(stack: ExitStack) -> dict[str, str]:
    sys.path.insert(0, str(ROOT))
    from budget_cpython.endpoint import ScriptedEndpoint

    endpoint = stack.enter_context(ScriptedEndpoint())
    print(f"scripted endpoint on {endpoint.base_url}", flush=True)
    return {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_MODEL": "scripted"}


def _runtimes(only: str | None) -> list[tuple[str, str]]:
    runtimes = [("cpython", sys.executable)]
    if only != "cpython":
        runtimes.insert(0, ("micropython", os.environ.get("MICROPYTHON", "micropython")))
    return [runtime for runtime in runtimes if only in (None, runtime[0])]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
