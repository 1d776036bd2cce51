"""The options and arguments of all commands: one table, from which their parsers follow.

A row begins with the command, where the row is not for all of them, and the name. A value follows
by its metavar; `N` is a count, `S` seconds, and what follows a colon another kind. `{a,b}` are
choices, `+` may be repeated, `!` is needed, `[PATH]` may be left out, and `=` begins a default.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from budget_cpython.ledger.default_ledger import ENGINE_VARIABLE

KEYS_VARIABLE = "MICROBUDGET_KEYS"
_OPTIONS = f"""
[PATH]  an account, and all below it (all accounts)
status [PATH]  an account: it, those below it and those above it (all accounts)
history PATH  an account
limits set PATH  an account; a new one is made
limits remove PATH+  an account
charge PATH  an account, or a path below one
ID  its id, as `microbudget holds` shows it
LIMITS  in quotes, as a shell replaces $5
AMOUNTS  in quotes, as a shell replaces $3
limits import FILE  as `limits export` writes it
backup FILE  the copy; its folder must exist
alerts FILE  the TOML file with [[alerts]]
NAME  its name
serve key add NAME  its name: letters, digits, _ and -
SHELL{{bash,zsh,tcsh}}  bash, zsh, tcsh
board deploy BOARD  its name, or a folder, as in ./my_board
board run BOARD  the board that was deployed
FOLDER:path  a new or empty folder
board push FOLDER:path  a folder that `pull` filled
--ledger URL
    sqlite:FILE, redis://…, postgresql://…, http://…; by default ${ENGINE_VARIABLE}, else the file
    of the default ledger
run --ledger URL
    where limits with a window are kept: sqlite:FILE, redis://…, postgresql://…, http://…; by
    default ${ENGINE_VARIABLE}, else a file of the user's own
proxy --ledger URL
    the ledger: sqlite:FILE, redis://…, postgresql://…, http://…; by default ${ENGINE_VARIABLE},
    else for limits with a window a file of the user's own, else memory:
--ledger-key …  the key of an http:// ledger, as @FILE or env:VARIABLE
--engine URL
    the ledger: memory:, sqlite:FILE, redis://…, postgresql://…; or set ${ENGINE_VARIABLE}, which
    keeps a password out of the list of processes
run --account PATH  its account, as in team/me; by default the program's
proxy --account PATH
    the account of calls without --keys, and of keys for all accounts (proxy; for limits with a
    window and no --ledger one of this folder and address)
serve key add --account PATH!  its account, and all below it; * is every account
holds release --account PATH =  its account, where several have a hold of that id
--json  print one line of JSON
--yes  do not ask
board new --yes  ask nothing: take the defaults
--dry-run  show what would change, and change nothing
board deploy --dry-run  say what would change, no more

--budget BUDGET  limits, a time, or both, as in '$5 + 30 min'
--limit LIMITS
    the limits of that account, set at the start, as in '$5/day + 100 calls/hour'
run --upstream NAME=URL+
    where calls go: by default to the URL that a variable had, else to the vendor; openai,
    anthropic, google or a name of your own; may be repeated
proxy --upstream NAME=URL+!
    where calls go, as in openai=https://…; may be repeated (openai, anthropic and google are chosen
    by a call's format, any other by /NAME/ before its path)
--upstream-key NAME=…+
    an upstream's key, as NAME=@FILE or NAME=env:VARIABLE; without it the client's is sent
--set NAME[=PATH]+
    set another variable to the proxy: to the path that begins with an upstream's name, or in front
    of the URL that it has; may be repeated
--settings FILE
    a TOML file with limits and the next options for single accounts, with prices and the models of
    deployments
--notices  tell the model of limits, and withdraw its tools near them
--strict
    refuse requests that are not known model calls; without it each that is not free counts as one
    call
--fallback-model MODEL
    the model that answers when the one asked for does not fit the budget
--wait S  a call waits up to S seconds for what others hold
--repeats N
    refuse a call that would be the Nth in a row with the same model, messages and tools
--max-tokens N
    the limit of an answer for which the client gives none; else only limits of tokens and dollars
    bound answers, by what they can afford
--expect N:expected
    hold N tokens for an answer whose limit does not fit, or 'learned' from earlier answers
--prices FILE
    a TOML file with prices of models that no list has, as `proxy --settings` takes it
--report FILE  write what was used to FILE, as JSON
--telemetry
    export OpenTelemetry's metrics, by the SDK that opentelemetry-instrument sets up
--quiet  show no line of what is left, and no summary

--no-create  refuse an SQLite file that does not exist, instead of making it
--axes AXIS,…  the only axes, as in tokens,calls (tokens, calls, usd and those of limits)
--max-holds N:int  for memory:, the most live holds (1000000)
--engine-timeout S =10  the engine has S seconds to answer
--workers N =1  serve with N processes, on a ledger that they can share
--alerts FILE  watch the ledger's limits, and send the alerts of a TOML file's [[alerts]]
serve --listen ADDRESS =127.0.0.1:8321  HOST:PORT, with port 0 for a free one, or unix:PATH
proxy --listen ADDRESS =127.0.0.1:8322  HOST:PORT, with port 0 for a free one, or unix:PATH
page --listen ADDRESS =127.0.0.1:0  HOST:PORT of this machine, with port 0 for a free one
--keys FILE  the file of keys; or set ${KEYS_VARIABLE}
serve key --keys FILE ={argparse.SUPPRESS}  the file of keys; or set ${KEYS_VARIABLE}
--rights RIGHT,… =reserve,read  its rights
--read-on S =60  read an answer on for S seconds after its client has left
--upstream-timeout S =600  an upstream may send nothing for S seconds
--max-body N =32  the largest request, in megabytes
--metrics  serve /metrics for Prometheus: with --keys, to keys with the right to read
--metrics-accounts N =1000  show at most N accounts there, those nearest to their end
--connections N =1000  the most connections; a new one takes the place of a stalled one
--connections-per-address N =600  the most of one client's address; more behind a proxy
--idle-timeout S =30  close a connection without progress for S seconds
run --grace S =10  seconds from SIGTERM to SIGKILL
serve --grace S =20  when stopped, answer requests for up to S seconds
proxy --grace S =60  when stopped, answer requests for up to S seconds
--ssl-certfile FILE  serve https with this certificate
--ssl-keyfile FILE  and this private key
--access-log  log each request on stderr
--open  open it in a browser

status --all  show all accounts, as a tree
--check  exit with 3 if a limit is over
top --once  print it once, and end
alerts watch --once  look once, send what is due, and end
top --every S =2  ask the ledger every S seconds
alerts watch --every S =10  look every S seconds
--windows N =10  the most windows in a table
--most N =1000  the most holds
--key KEY  an idempotency key, such as an invoice's number
--prune  remove accounts that the file does not name
-o,--output FILE  write FILE instead
report --output FILE
    the file to write, in the place of one that is there; by default standard output
--since TIME =7d
    since when: 90min, 24h, 7d, 4w, or a date such as 2026-11-20 or 2026-11-20T09:00, UTC
--until TIME  until when, in the same way (now)
--by COLUMN,…:str  columns to sum by, of account, model, tool, hour, day (account,model)
--format {{html,csv,json,focus}}
    what to write; by default what the name of the file ends with, else a table
--headroom N =25  percent above what was spent
--toml  print limits as TOML
--to NAME  the name of the only channel to send to

--port PORT  the board's serial port, as in /dev/ttyACM0
board status --port PORT+
    the board's serial port, as in /dev/ttyACM0; with --all it may be repeated
board status --all  show a table of all boards
--url URL  the service, as `microbudget serve` prints it; else $MICROBUDGET_LEDGER
--board NAME  the board of `microbudget board list` to begin with (unix)
--base-url URL  the endpoint (https://api.openai.com/v1; for unix one on this machine)
--model NAME  the model (gpt-4o-mini; for unix a scripted one)
--daily-tokens N:str  the tokens that it may use in a day (50000)
--api-key KEY  the key of the endpoint (none)
--wifi-name NAME  the name of its Wi-Fi (none yet)
--wifi-password PASSWORD  the password of its Wi-Fi; empty if it is open
board new --secrets FILE:path  copy FILE as secret.py: key and Wi-Fi
board deploy --secrets FILE:path  copy FILE as /secret.py
--with ROOM+
    copy a module or a room of the core that the programs do not import: agent, board, chat or
    ledger; may be repeated
--without ROOM+
    leave out a room also where it is not known what the programs import: agent, board, chat or
    ledger; may be repeated
--ca FILE:path  trust the certificates in FILE
--force  go on where a check refuses
--no-reset  do not start the new program
--heap SIZE =512k  size of its heap
--flash FILE:path  keep its flash in FILE
--fs {{littlefs,fat}} =littlefs  its file system
board run --romfs FILE:path  give it a ROMFS, kept in FILE
--cut-power-after N:int  cut its power after N flash operations
--clock {{unset,2000,unset-2000}}  its clock at power-up
"""
_ROW = re.compile(
    r"(?P<command>[a-z ]*?) ?(?P<name>-[\w,-]+|\[?[A-Z].*?)"
    r"( (?P<value>[^=].*?))?( =(?P<default>.*))?"
)
_VALUE = re.compile(r"(?P<metavar>[^{:+!]*)({(?P<choices>.*)})?(:(?P<kind>\w+))?(?P<marks>[+!]*)")


def add_options(parser: Any, command: str, names: str) -> None:
    """Add options and arguments of a command to its parser, or to a group of it.

    `names` are as in the table, with blanks between them; the row of the nearest command counts.
    """
    words = command.split()
    for name in names.split():
        keys = [" ".join([*words[:count], name]) for count in range(len(words), -1, -1)]
        flags, settings = next(_ROWS[key] for key in keys if key in _ROWS)
        parser.add_argument(*flags, **settings)


def _rows() -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Return the arguments of `add_argument` for each row of the table, by command and name."""
    found = {}
    for text in re.split(r"\n+(?=\S)", _OPTIONS.strip()):
        head, words = re.split(r" {2,}|\n +", text, maxsplit=1)
        row = _ROW.fullmatch(head)
        if row is None:
            raise ValueError(f"the table of options has the row {head!r}")
        flags, settings = _argument(row["name"], row["value"])
        settings["help"] = " ".join(words.split())
        if row["default"] is not None:
            settings["default"] = row["default"]
        if row["default"] == argparse.SUPPRESS:
            settings["default"] = argparse.SUPPRESS  # known by identity
        elif row["default"]:
            settings["help"] += f" ({row['default']})"
        key = settings["metavar"] if row["name"][0] != "-" else flags[-1]
        found[f"{row['command']} {key}".strip()] = flags, settings
    return found


def _argument(name: str, value: str | None) -> tuple[list[str], dict[str, Any]]:
    """Return the flags or the name of an argument, and how its value is read."""
    is_option = name.startswith("-")
    if is_option and value is None:
        return name.split(","), {"action": "store_true"}
    is_optional = not is_option and name.startswith("[")
    form: Any = _VALUE.fullmatch((value or "") if is_option else name.strip("[]"))
    metavar = form["metavar"]
    settings: dict[str, Any] = {"metavar": metavar} if metavar else {}
    if form["choices"]:
        settings["choices"] = form["choices"].split(",")
    kind = _KINDS.get(form["kind"] or metavar, split_names if metavar.endswith(",…") else None)
    if kind is not None:
        settings["type"] = kind
    if "!" in form["marks"]:
        settings["required"] = True
    if "+" in form["marks"]:
        settings |= {"action": "append", "default": []} if is_option else {"nargs": "+"}
    if is_optional:
        settings |= {"nargs": "?", "default": ""}
    return name.split(",") if is_option else [metavar.lower()], settings


def count(text: str) -> int:
    """Read a number of connections and the like."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"a number from 1 to 1000000, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a time."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"seconds above 0, up to 86400, not {text!r}")
    return value


def split_names(text: str) -> list[str]:
    """Read names with commas between them."""
    return text.split(",")


def _expected(text: str) -> int | str:
    return text if text == "learned" else count(text)


_KINDS: dict[str, Callable[[str], Any]] = {
    "N": count,
    "S": seconds,
    "int": int,
    "path": Path,
    "str": str,
    "expected": _expected,
}
_ROWS = _rows()
