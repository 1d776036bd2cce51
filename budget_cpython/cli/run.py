"""The command `microbudget run`: a budget round any program."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budget_cpython.cli.command import command
from budget_cpython.cli.service import (
    CALL_RULES,
    ENGINE_VARIABLE,
    begin_telemetry,
    ledger_options,
)
from budget_cpython.ledger.default_ledger import default_url, usable_default

if TYPE_CHECKING:
    from budget_cpython.ledger.limit_parser import ParsedBudget
    from budget_cpython.run.report import Report


_OPTIONS = (
    f"--budget --ledger --account --ledger-key --upstream --set {CALL_RULES} --prices --grace "
    "--report --telemetry --quiet"
)
_RULES = ("fallback_model", "wait", "max_tokens", "repeats")


def _add_rest(parser: argparse.ArgumentParser) -> None:
    rest = argparse.REMAINDER
    parser.add_argument("command", nargs=rest, metavar="COMMAND", help=argparse.SUPPRESS)


@command(
    _OPTIONS,
    "proxy",
    extend=_add_rest,
    has_all_codes=True,
    usage="%(prog)s --budget BUDGET [options] -- COMMAND ...",
    allow_abbrev=False,
)
def run(options: argparse.Namespace) -> int:
    r"""Run a command within a budget.

    Its model calls go through a proxy on this machine. SDKs find it by their variables, which the
    command gets: OPENAI_BASE_URL, OPENAI_API_BASE, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL,
    GEMINI_API_BASE and others. API keys stay as they are.

    A call that does not fit is refused, and not sent. At the deadline all processes of
    the command get SIGTERM, and after --grace seconds SIGKILL. While it runs, the last row of a
    terminal shows what is left. At the end standard error has what was used, by model.

    the budget, in quotes, as a shell replaces $5:
      '$5 + 30 min'                      dollars, and a time
      '200 calls + 1_000_000 tokens'     calls, tokens
      '$5/day + $0.50'                   $0.50 for this run, $5 a day for all runs of this program,
                                         or of --account: kept in --ledger, else in the user's own

    exit codes:
      that of the command, or 128 + N if signal N ended it
      75   the deadline ended it, or the budget refused calls and the command then failed
      126  the command cannot be executed    127  it was not found
      2    a malformed option                1    the proxy, the ledger or the report cannot be used

    examples:
      microbudget run --budget '$5 + 30 min' -- node agent.js
      microbudget run --budget '50 calls' --report used.json -- python agent.py --verbose
      microbudget run --budget '$1' --upstream openai=http://localhost:8000/v1 -- ./agent
      microbudget run --budget '$1' --upstream groq=https://api.groq.com/openai/v1 \
          --set GROQ_API_BASE=/groq -- python agent.py
    """
    if not hasattr(os, "posix_spawnp"):
        raise OSError("`microbudget run` needs Linux or macOS: elsewhere use `microbudget proxy`")
    from budget_cpython.run.accounts import open_accounts
    from budget_cpython.run.background_proxy import check_installed
    from budget_cpython.run.environment import check_upstreams, for_command, plan_routes
    from budget_cpython.run.within import NotStartedError, run_within

    check_installed()

    command = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise ValueError("give a command, as in microbudget run --budget '$5' -- node agent.js")
    begin_telemetry(options)
    routes = plan_routes(os.environ, _upstreams(options), options.set)
    check_upstreams(routes.upstreams)
    budget = _budget(options)
    url, account = _place(options, command, budget)
    default = None if options.ledger else url
    with _ledger(options, url) as ledger:
        replaces = options.account is None
        accounts = open_accounts(budget, ledger, account, default, replaces, **_rules(options))
        if options.report:
            Path(options.report).touch()  # refused now, not at the end
        try:
            report = run_within(
                accounts,
                budget.seconds,
                routes,
                command,
                for_command(os.environ, url, options.ledger_key),
                grace=options.grace,
                shows=not options.quiet,
                notices=options.notices,
                strict=options.strict,
            )
        except NotStartedError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
    _say(options, report)
    return report.exit_code


def _upstreams(options: argparse.Namespace) -> dict[str, str]:
    if not options.upstream:
        return {}
    from budget_cpython.proxy import read_upstreams

    return {upstream.name: upstream.url for upstream in read_upstreams(options.upstream, [])}


def _place(
    options: argparse.Namespace, command: list[str], budget: "ParsedBudget"
) -> tuple[str | None, str | None]:
    """Return the URL of the ledger that is to be drawn on and the account in it, or two `None`."""
    from budget_cpython.run.accounts import account_of

    account, engine = options.account, os.environ.get(ENGINE_VARIABLE)
    if options.ledger:
        if not account:
            raise ValueError("--ledger needs an account to draw on, as in --account team/me")
        return options.ledger, account
    if budget.windowed and not account:
        return default_url(), account_of(command)
    if account and not budget.windowed and not engine:
        raise ValueError(
            f"--account needs a ledger, or a budget with a window: give --ledger, or set "
            f"${ENGINE_VARIABLE}"
        )
    return (default_url(), account) if account else (None, None)


@contextmanager
def _ledger(options: argparse.Namespace, url: str | None) -> Iterator[Any]:
    """Yield the ledger that is to be drawn on, or `None`."""
    from budget_cpython.ledger.opening import open_ledger

    if url is None:
        yield None
        return
    with nullcontext() if options.ledger else usable_default(url):
        ledger = open_ledger(url, **ledger_options(options, url))
    with closing(ledger):
        yield ledger


def _budget(options: argparse.Namespace) -> "ParsedBudget":
    from budget_cpython.ledger.limit_parser import ParsedBudget
    from budget_cpython.run.accounts import read_budget

    if options.budget is not None:
        return read_budget(options.budget)
    if not options.ledger and not options.account:
        raise ValueError("give --budget, as in --budget '$5 + 30 min', or --ledger and --account")
    return ParsedBudget([])


def _rules(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the run's accounts."""
    from budget_cpython.run.accounts import read_prices

    rules = {name: getattr(options, name) for name in _RULES}
    rules["load_prices"] = None if options.prices is None else read_prices(options.prices)
    return {name: value for name, value in rules.items() if value is not None}


def _say(options: argparse.Namespace, report: "Report") -> None:
    """Say what was used; after Ctrl-C end as the command did."""
    if not options.quiet:
        first = "\n" * sys.stderr.isatty()  # after ^C, or a line that the command did not end
        with suppress(OSError):  # its reader has gone
            print(first + "\n".join(report.lines()), file=sys.stderr, flush=True)
    if options.report:
        Path(options.report).write_text(json.dumps(report.as_json(), indent=2) + "\n", "utf-8")
    if report.ending.interrupted and report.ending.signal == signal.SIGINT:
        # A shell ends its script, or its loop, only after a command that the signal ended.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
