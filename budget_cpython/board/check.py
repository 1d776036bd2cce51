"""Check a board's settings and secrets on this machine, before a deploy."""

import ast
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from budget_core.agent.budget import Budget
from budget_core.agent.wind_down import WindDown
from budget_core.chat.client import ChatClient
from budget_core.checks import check_count, check_text
from budget_core.config import DailyBudgetConfig
from budget_core.file_store import FileBudgetStore
from budget_core.ledger.checks import check_path
from budget_core.ledger.http_client import HttpLedger
from budget_cpython.board.build import CORE
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files
from budget_cpython.board.programs import SETTINGS, imported_names, parsed, programs_of

# The core's modules that read settings: always, and if a program imports one.
_READERS = ("device", "status")  # of its room `board`
_MORE = {"console": ("console", "make_agent"), "wifi": ("wifi",)}
_SECRET = ("API_KEY", "LEDGER_KEY")  # their values are in no output
_PLAIN_URL = "http://board.example"
RULES: dict[str, Callable[[Any], object]] = {
    "DAILY_BUDGET": lambda value: DailyBudgetConfig(daily_budget=value),
    "RESET_HOUR_UTC": lambda value: DailyBudgetConfig(reset_hour_utc=value),
    "DAY_WARNINGS": lambda value: DailyBudgetConfig(warning_thresholds=value),
    "CACHED_TOKEN_WEIGHT": lambda value: DailyBudgetConfig(cached_token_weight=value),
    "ALLOWANCE": lambda value: FileBudgetStore("state", allowance=value),
    "STATE": lambda value: FileBudgetStore(_absolute(value)),
    "WRITE_AHEAD": lambda value: check_count("write_ahead", value),
    "MAX_TURNS": lambda value: Budget(max_turns=value),
    "MAX_TOKENS": lambda value: Budget(max_tokens=value),
    "MAX_TOKENS_PER_CALL": lambda value: Budget(max_tokens_per_turn=value),
    "MAX_TOOL_CALLS": lambda value: Budget(max_tool_calls=value),
    "TIMEOUT_S": lambda value: Budget(timeout=value),
    "NOTICE_AT": lambda value: WindDown(notice_at=value),
    "TOOLS_OFF_AT": lambda value: WindDown(tools_off_at=value),
    "BASE_URL": lambda value: ChatClient(value, "model", tls="given"),
    "API_KEY": lambda value: ChatClient(_PLAIN_URL, "model", value),
    "CALL_TIMEOUT_S": lambda value: ChatClient(_PLAIN_URL, "model", timeout_s=value),
    "MAX_ANSWER_BYTES": lambda value: ChatClient(_PLAIN_URL, "model", max_response_bytes=value),
    "MODEL": lambda value: check_text("model", value),
    "SYSTEM_PROMPT": lambda value: check_text("system_prompt", value),
    "WIFI_RETRIES": lambda value: check_count("retries", value),
    "NTP_RETRIES": lambda value: check_count("retries", value),
    "NTP_HOST": lambda value: check_text("host", value),
    "LEDGER": lambda value: HttpLedger(value or _PLAIN_URL, tls="given"),
    "LEDGER_ACCOUNT": check_path,
    "LEDGER_KEY": lambda value: ChatClient(_PLAIN_URL, "model", value),
    "DEVICE": lambda value: check_path(value or "chip"),
    "CA_FILE": lambda value: check_text("ca_file", value or "none"),
    "NOTES": lambda value: check_text("notes", value),
    "MAX_NOTE_BYTES": lambda value: check_count("bytes", value),
    "HISTORY_CHARS": lambda value: check_count("chars", value),
}


def check_board(board: Path) -> bool:
    """Check a board's settings; return whether it needs secrets.

    Raises `UsageError` for a syntax error, a missing name that the board's programs or the core
    read, and a value that the core refuses. Settings that import a module of the board are only
    checked for syntax.
    """
    programs = [parsed(source) for source in programs_of(board)]
    loaded = {name for program in programs for name in imported_names(program)}
    source = board_files(board)[SETTINGS[1:]]
    values = settings_of(board)
    if values is not None:
        if values.get("LEDGER"):
            programs.append(parsed(CORE / "board/fleet.py"))
        _check_names(source, values, programs, loaded)
        _check_values(source, values)
    on_tls = str((values or {}).get("BASE_URL", "")).startswith("https")
    return on_tls or f"{CORE.name}.board.wifi" in loaded


def settings_of(board: Path) -> dict[str, Any] | None:
    """Return the values of a board's settings, or `None` if only a board can run them."""
    source = board_files(board)[SETTINGS[1:]]
    code = compile(parsed(source), str(source), "exec")
    values: dict[str, Any] = {}
    try:
        exec(code, values)  # noqa: S102 - the user's own file
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the user's file raises
        frames = traceback.extract_tb(error.__traceback__)
        line = [frame.lineno for frame in frames if frame.filename == str(source)][-1]
        raise UsageError(f"{source}, line {line}: {type(error).__name__}: {error}") from None
    return values


def _check_names(
    source: Path, values: dict[str, Any], programs: list[ast.Module], loaded: set[str]
) -> None:
    readers = list(_READERS)
    for name, more in _MORE.items():
        if f"{CORE.name}.board.{name}" in loaded:
            readers += more
    read = programs + [parsed(CORE / f"board/{name}.py") for name in readers]
    needed = {name for program in read for name in _settings_of(program)}
    if missing := sorted(needed - set(values)):
        raise UsageError(f"{source} lacks {', '.join(missing)}: copy them from a board's settings")


def _check_values(source: Path, values: dict[str, Any]) -> None:
    for name in [name for name in RULES if name in values]:
        try:
            RULES[name](values[name])
        except (TypeError, ValueError, AttributeError) as error:
            shown = name if name in _SECRET else f"{name} = {values[name]!r}"
            raise UsageError(f"{source}: {shown}: {error}") from None
    ahead, day = values.get("WRITE_AHEAD", 0), values.get("DAILY_BUDGET")
    if day is not None and ahead > day:
        raise UsageError(
            f"{source}: WRITE_AHEAD = {ahead}: a power cut would cost the whole DAILY_BUDGET of "
            f"{day}; a tenth of it is {day // 10}"
        )


def _absolute(folder: Any) -> Any:
    if isinstance(folder, str) and (folder[:1] != "/" or not folder.strip("/")):
        raise ValueError("name a folder from the root on, as in '/budget'")
    return folder


def _settings_of(program: ast.AST) -> Iterator[str]:
    """Yield the names that are read as `settings.NAME` or `self.settings.NAME`."""
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute) and node.attr.isupper():
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name == "settings":
                yield node.attr
