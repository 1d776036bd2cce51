"""The command `microbudget proxy`."""

import argparse
import os
import secrets
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from budget_core.ledger.checks import chain
from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.cli.alerts import read_channels, watching_for
from budget_cpython.cli.command import command
from budget_cpython.cli.service import (
    CALL_RULES,
    CONNECTIONS,
    ENGINE_VARIABLE,
    begin_telemetry,
    begin_worker,
    counting_together,
    ledger_options,
    metrics_of,
    open_keys,
    prepare_service,
    warn,
)
from budget_cpython.ledger.default_ledger import (
    default_account,
    default_url,
    set_default_limits,
    usable_default,
)
from budget_cpython.ledger.limit_parser import ParsedBudget

if TYPE_CHECKING:
    from budget_cpython.proxy import Proxy
    from budget_cpython.proxy.settings import Settings

ACCOUNT = "proxy"
MEMORY = "memory:"
_OPTIONS = (
    "--upstream --upstream-key --ledger --ledger-key --account --limit --alerts --listen --keys "
    f"--settings {CALL_RULES} --expect --workers --read-on --upstream-timeout --max-body --metrics "
    f"--metrics-accounts --telemetry {CONNECTIONS}"
)


@command(_OPTIONS, "proxy")
def proxy(options: argparse.Namespace) -> int:
    r"""Keep the LLM calls of programs in any language within budgets.

    A client takes the proxy as its base URL: URL/v1 in OpenAI's SDKs, URL in Anthropic's and
    Google's. Each call is held on its account before it is sent, and what it used is recorded after
    it. Where tokens or dollars are limited, its answer is bounded by what is held. A call that does
    not fit is refused with 402, which SDKs do not repeat. The first line printed is the URL.
    SIGTERM or Ctrl-C stops the proxy after running answers have ended. /healthz answers while it
    runs, /readyz while its ledger answers.

    With --keys clients send keys of `microbudget serve key add` where an API key goes; each draws
    on the account of its key. --upstream-key keeps the upstream's key in the proxy.

    examples:
      microbudget proxy --upstream openai=https://api.openai.com --limit '$5/day'
      microbudget proxy --upstream openai=http://localhost:8000 --limit '1_000_000 tokens/day'
      microbudget proxy --upstream openai=https://api.openai.com --upstream-key openai=env:KEY \
          --upstream anthropic=https://api.anthropic.com --upstream-key anthropic=@anthropic.key \
          --keys keys.json --ledger postgresql:///budgets --workers 4

    exit codes:
      0  it was stopped
    """
    default = _choose_ledger(options)
    options.page_secret = secrets.token_bytes(32)  # of all workers
    serve = prepare_service(options)
    channels = read_channels(options.alerts or options.settings, needed=options.alerts is not None)
    if options.workers > 1 and options.ledger == MEMORY:
        raise ValueError("processes cannot share memory: give --ledger, as in sqlite:budget.db")
    with nullcontext() if default is None else usable_default(default):
        proxy = make_proxy(options)  # refuses what is malformed, also where workers make their own
        _set_limits(options, proxy, default)
    with watching_for(channels, partial(_blocking_ledger, options, proxy)):
        if options.workers == 1:
            begin_telemetry(options)
            return serve(proxy.app)
        with counting_together() if options.metrics else nullcontext():
            return serve(partial(make_worker, options), options.workers)


def _choose_ledger(options: argparse.Namespace) -> str | None:
    """Set the ledger and the account where they are not given; return the default ledger's URL.

    Only limits with a window use it. Raises `ValueError` for one without a window beside them: it
    would never end there.
    """
    chosen, account = options.ledger, options.account
    options.account = account or ACCOUNT
    limits = [limit for row in _settings(options).limits().values() for limit in row]
    budget = ParsedBudget(limits)
    if chosen or not budget.windowed:
        options.ledger = chosen or os.environ.get(ENGINE_VARIABLE) or MEMORY
        return None
    if budget.unwindowed:
        raise ValueError(
            "limits with and without a window share one ledger here, and those without one "
            "never end in it: give each a window, as in '100 calls/day', or --ledger"
        )
    url = options.ledger = default_url()
    options.account = account or default_account(options.listen, os.path.join(os.getcwd(), "proxy"))
    return url


def make_worker(options: argparse.Namespace) -> Any:
    """Return the app of one of several processes."""
    begin_worker()
    begin_telemetry(options)
    return make_proxy(options).app


def make_proxy(options: argparse.Namespace) -> "Proxy":
    """Return the proxy that the options describe; `ValueError`, `ImportError`, `OSError`."""
    from budget_cpython.ledger import Ledger
    from budget_cpython.ledger.opening import open_async_ledger
    from budget_cpython.proxy import Access, Proxy, read_upstreams
    from budget_cpython.proxy.app import SWITCH_S
    from budget_cpython.proxy.settings import rules_on

    sys.setswitchinterval(SWITCH_S)
    url, more = options.ledger, ledger_options(options, options.ledger)
    ledger: Any = Ledger() if url == MEMORY else open_async_ledger(url, **more)
    upstreams = read_upstreams(options.upstream, options.upstream_key)
    return Proxy(
        {upstream.name: upstream for upstream in upstreams},
        rules_on(ledger, _settings(options)),
        access=Access(options.account, open_keys(options)),
        read_on_s=options.read_on,
        max_body=options.max_body << 20,
        upstream_timeout_s=options.upstream_timeout,
        ledger=ledger,
        page=True,
        page_secret=options.page_secret,
        metrics=metrics_of(options),
    )


def _settings(options: argparse.Namespace) -> "Settings":
    from budget_cpython.proxy.settings import SAID, read_settings

    said = {name: getattr(options, name, None) for name in SAID}
    said = {name: value for name, value in said.items() if value not in (None, False)}
    return read_settings(options.settings, said, options.account)


def _blocking_ledger(options: argparse.Namespace, proxy: "Proxy") -> Any:
    """Return the proxy's ledger for threads, another object unless it is in memory."""
    from budget_cpython.ledger.opening import open_ledger

    if options.ledger == MEMORY:
        return proxy.ledger
    return open_ledger(options.ledger, **ledger_options(options, options.ledger))


def _set_limits(options: argparse.Namespace, proxy: "Proxy", default: str | None) -> None:
    """Set the limits that the options say, and see that the ledger can be used."""
    settings = _settings(options)
    ledger = _blocking_ledger(options, proxy)
    try:
        for path, limits in settings.limits().items():
            if default is not None:
                set_default_limits(ledger, default, path, limits)
            elif ledger.limits(path) != limits:
                ledger.set_limits(path, limits)
        account = options.account
        if options.keys is None and not any(map(ledger.limits, chain(account))):
            text = f"account {account!r} has no limits, so calls are refused: give --limit"
            if options.ledger == MEMORY:
                raise ValueError(text)
            warn(text)
    except LedgerUnavailableError as error:
        if options.ledger.startswith("sqlite:") or settings.limits():
            raise
        warn(f"the ledger cannot be used yet: {error}")
    finally:
        if ledger is not proxy.ledger:
            ledger.close()
