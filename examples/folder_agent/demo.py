"""Put OpenAI's client on a budget in dollars; then run an agent on MicroPython and on CPython.

The agent reads a folder within a budget, with a wind-down and without one. Without OPENAI_BASE_URL
in the environment a scripted endpoint answers it. The client's model is always scripted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main() -> int:
    """Run the demo; return the first exit code that is not 0."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("folder", nargs="?", default=str(ROOT / "docs"), help="default: docs")
    parser.add_argument("--question", help="what to ask about the folder's files")
    parser.add_argument("--no-warnings", action="store_true", help="show the hard stop in full")
    parser.add_argument("--only", choices=("micropython", "cpython"), help="one run on it, no more")
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - a machine's own may be older
        why = "error: Python 3.11 or later is needed; name one: make demo PYTHON=python3.12"
        print(why, file=sys.stderr)
        return 2
    with ExitStack() as stack:
        demo = Demo(options.folder, options.question, Path(stack.enter_context(_folder())))
        if not demo.environment.get("OPENAI_BASE_URL"):
            demo.environment |= _scripted(stack)
        try:
            if not options.only:
                demo.spend_dollars()
            demo.play(options.only, options.no_warnings)
        except subprocess.CalledProcessError as error:
            return error.returncode
    return 0


class Demo:
    """The runs of one demo: the first is shown as it happens, of the others what they came to."""

    def __init__(self, folder: str, question: str | None, facts: Path) -> None:
        self.environment = dict(os.environ)
        self.color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._words = [folder, question] if question else [folder]
        self._facts = facts

    def spend_dollars(self) -> None:
        """Show an SDK's client that is refused at its limit; raises `CalledProcessError`."""
        self.title("openai's client, within five cents")
        program = str(ROOT / "examples/sdks/in_dollars.py")
        environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, program], env=environment, check=True)  # noqa: S603

    def play(self, only: str | None, abrupt: bool) -> None:
        """Show a run, and unless it is the `only` one, compare it with others."""
        self.title(f"an agent on {only or 'micropython'}, {_named(abrupt)}")
        shown = self.run(only or "micropython", abrupt, show=True)
        if only:
            return
        self.title("the same agent on cpython")
        self.compare(shown, self.run("cpython", abrupt))
        scripted = self.environment.get("OPENAI_MODEL") == "scripted"
        other = self.run("cpython", not abrupt) if scripted else None  # others cost money
        self.title("verdict")
        if other is not None:
            self.contrast(*((other, shown) if abrupt else (shown, other)))
        self.explain_cache(shown)

    def run(self, runtime: str, abrupt: bool, show: bool = False) -> dict[str, Any]:
        """Run the agent once and return its facts; raises `CalledProcessError` if it fails."""
        name = sys.executable
        if runtime == "micropython":
            name = os.environ.get("MICROPYTHON", "micropython")
        file = self._facts / "facts.json"
        options = [f"--facts={file}"]
        options += ["--no-warnings"] if abrupt else []
        options += ["--color"] if self.color else []
        command = [name, str(HERE / "main.py"), *options, *self._words]
        output = None if show else subprocess.DEVNULL
        subprocess.run(command, env=self.environment, stdout=output, check=True)  # noqa: S603
        facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
        return facts

    def title(self, text: str) -> None:
        """Print a heading."""
        print(f"\x1b[1m--- {text}\x1b[0m" if self.color else f"--- {text}", flush=True)

    def compare(self, *runs: dict[str, Any]) -> None:
        """Print what two runtimes came to, side by side."""
        shown = [{**run, "the day": run["today"][1]} for run in runs]
        for name in ("runtime", "calls", "tokens", "tool calls", "limit", "the day"):
            values = [str(run[name]) or "-" for run in shown]
            print(f"{name:<12}{values[0]:<34}{values[1]}")
        same = len({run["answer"] for run in runs}) == 1
        print(f"{'answer':<12}{'word for word the same' if same else 'in other words'}")

    def contrast(self, gentle: dict[str, Any], abrupt: dict[str, Any]) -> None:
        """Print what the wind-down was good for."""
        for name, run in (("with wind-down", gentle), ("without", abrupt)):
            lines = run["answer"].splitlines() or [""]
            ended = f"stopped, {run['limit']}" if run["limit"] else "finished"
            print(f"{name:<16}{ended}: {run['calls']} calls, {run['tokens']} tokens")
            print(f"{'':<16}{lines[0]}{f' ({len(lines) - 1} more lines)' if lines[1:] else ''}")
        if abrupt["limit"] and not gentle["limit"]:
            spent = abrupt["tokens"] / max(1, gentle["tokens"])
            print(
                "Told in time, the agent stopped reading and answered with what it had read. Left "
                f"untold, it\nspent {spent:.1f} times as many tokens and has nothing to show."
            )

    def explain_cache(self, run: dict[str, Any]) -> None:
        """Print why the day counts less than the run used."""
        counted = run["today"][1] - run["today"][0]
        print(
            f"Of the first run's {run['tokens']} tokens, {run['cached']} were the beginning of a "
            "prompt that the endpoint had\nseen before. Providers sell those at a discount, so the "
            f"day counts a tenth of each: {counted} tokens."
        )


def _named(abrupt: bool) -> str:
    return "without a wind-down" if abrupt else "with a wind-down"


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="microbudget-demo-")


def _scripted(stack: ExitStack) -> dict[str, str]:
    sys.path.insert(0, str(ROOT))
    from scripted_model import ScriptedEndpoint

    endpoint = stack.enter_context(ScriptedEndpoint())
    print(f"scripted endpoint on {endpoint.base_url}", flush=True)
    return {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_MODEL": "scripted"}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
