"""An agent that reads the files of a folder within the budgets of a run and of a day.

Runs on MicroPython and on CPython; `main.py --help` says how. The endpoint is named by
OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
"""

import asyncio
import json
import os
import sys

HERE = sys.argv[0].rpartition("/")[0] or "."
sys.path[:0] = [HERE + "/../..", HERE]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import budget_core as budget
else:
    try:
        import threading  # noqa: F401 - what budget_cpython builds on, and a chip lacks

        import budget_cpython as budget
    except ImportError:
        import budget_core as budget

import settings
from folder import Folder
from report import Narrator, Report

from budget_core import FileBudgetStore  # the chips', whose files both runtimes read
from budget_core.chat.tls import tls_context

USAGE = """\
usage: main.py [--no-warnings] [--color] [--facts=FILE] [FOLDER [QUESTION]]

Asks the model at OPENAI_BASE_URL (OPENAI_MODEL, OPENAI_API_KEY) about the files in FOLDER.
  --no-warnings   no notices, and nothing kept for a last answer
  --color         colour the first word of each line
  --facts=FILE    write what came of the run to FILE, as JSON"""

OPTIONS = ("--no-warnings", "--color")


def environment(name: str) -> str:
    """Return an environment variable, where the port has any."""
    getenv = getattr(os, "getenv", None)
    return (getenv and getenv(name)) or ""


def tools_for(folder: Folder) -> "list[budget.Tool]":
    """Return what the model may call."""
    path = {"type": "string", "description": "a path as list_files gives it"}
    arguments = {"type": "object", "properties": {"path": path}, "required": ["path"]}
    return [
        budget.Tool("list_files", "List the files, with sizes in bytes.", folder.list_files),
        budget.Tool("read_file", "Read the beginning of a file.", folder.read_file, arguments),
    ]


def make_client() -> "budget.ChatClient":
    """Return a client for the endpoint named by the environment."""
    base_url = environment("OPENAI_BASE_URL")
    if not base_url:
        raise ValueError("OPENAI_BASE_URL is not set; `make demo` starts an endpoint of its own")
    if not environment("OPENAI_MODEL"):
        raise ValueError("OPENAI_MODEL is not set; it names the model to ask")
    tls = None
    if base_url.startswith("https"):
        tls = tls_context(first_file(settings.CA_FILES))
    try:
        return budget.ChatClient(
            base_url,
            environment("OPENAI_MODEL"),
            environment("OPENAI_API_KEY") or None,
            timeout_s=settings.CALL_TIMEOUT_S,
            tls=tls,
        )
    except ValueError as error:
        raise ValueError(f"OPENAI_BASE_URL={base_url!r} or OPENAI_API_KEY: {error}")


def first_file(paths: "tuple[str, ...]") -> str | None:
    """Return the first path that exists, or `None`."""
    for path in paths:
        try:
            os.stat(path)
            return path
        except OSError:
            pass
    return None


def make_budget(warnings: bool) -> "budget.Budget":
    """Return what one run may use; without warnings nothing is kept for a last call."""
    return budget.Budget(
        max_turns=settings.MAX_TURNS,
        max_tokens=settings.MAX_TOKENS,
        max_tokens_per_turn=settings.MAX_TOKENS_PER_TURN,
        timeout=settings.TIMEOUT_S,
        max_tool_calls=settings.MAX_TOOL_CALLS,
        last_call=0.1 if warnings else None,
    )


def make_wind_down(warnings: bool) -> "budget.WindDown":
    """Return when the model is told, and loses its tools."""
    if not warnings:
        return budget.WindDown((), None, None)
    return budget.WindDown(settings.NOTICE_AT, tools_off_at=settings.TOOLS_OFF_AT)


def make_daily(client: "budget.ChatClient") -> "budget.DailyBudgetTracker":
    """Return the day's tracker, which knows what earlier runs have used."""
    scripted = client.get_default_model() == settings.SCRIPTED_MODEL
    return budget.DailyBudgetTracker(
        budget.DailyBudgetConfig(
            daily_budget=settings.DAILY_BUDGET,
            enforcement=budget.Enforcement.FALLBACK if scripted else budget.Enforcement.CUTOFF,
            fallback_model=settings.FALLBACK_MODEL if scripted else None,
            primary_models=(client.get_default_model(),),
        ),
        store=FileBudgetStore(HERE + "/../../" + settings.STATE),
    )


def write_json(path: str, facts: "dict[str, object]") -> None:
    """Write facts to a file."""
    with open(path, "w") as file:
        json.dump(facts, file)


async def run(path: str, question: str, options: "list[str]") -> int:
    """Run the agent once and report it line by line; return the exit code."""
    warnings = "--no-warnings" not in options
    client = make_client()
    daily = make_daily(client)
    before = daily.total_tokens
    report = Report(daily, "--color" in options)
    report.start(client, path)
    narrated = Narrator(client, report)
    operative = budget.Operative(
        budget.BudgetWrapper(narrated, daily, on_limit_reached=report.day_is_spent),
        tools_for(Folder(path, settings.MAX_LISTED_FILES, settings.MAX_READ_BYTES)),
        make_budget(warnings),
        settings.SYSTEM_PROMPT,
        on_event=report.event,
        session_id="folder",  # without one a run on a chip has no state, which counts cached tokens
        wind_down=make_wind_down(warnings),
    )
    result = await operative.run(question)
    for option in options:
        if option.startswith("--facts="):
            write_json(option[8:], report.facts(result, before))
    if result.reason is not None and result.reason.error is not None:
        print(f"error: {result.reason}", file=sys.stderr)
        return 1
    return 0


def main(arguments: "list[str]") -> int:
    """Run the program; return its exit code."""
    options = [word for word in arguments if word in OPTIONS or word.startswith("--facts=")]
    words = [word for word in arguments if word not in options]
    if len(words) > 2 or any(word.startswith("-") for word in words):
        print(USAGE)
        return 0 if words in (["-h"], ["--help"]) else 2
    path = words[0] if words else HERE + "/../../docs"
    try:
        os.listdir(path)
    except OSError:
        print(f"error: {path!r} is no folder that can be listed", file=sys.stderr)
        return 2
    try:
        question = words[1] if len(words) > 1 else settings.QUESTION
        return asyncio.run(run(path, question, options))
    except (budget.BudgetError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
