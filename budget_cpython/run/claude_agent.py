"""Budgets round agents of claude-agent-sdk: their model calls by a proxy, their tools by a hook."""

import os
import weakref
from contextlib import ExitStack
from dataclasses import fields, replace
from typing import Any, Self, Unpack

try:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

    from budget_cpython.proxy import Proxy
except ImportError as error:
    raise ImportError(
        "claude-agent-sdk, or what the proxy needs, is missing: "
        "pip install 'microbudget[claude-agent]'"
    ) from error

from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.run.environment import direct_to_loopback

URL = "ANTHROPIC_BASE_URL"
_ANTHROPIC = "https://api.anthropic.com"
_HOOK_SECONDS = 60  # that a hook has beside the time for which its call waits


class ToolHook:
    """A `PreToolUse` hook that draws on accounts, and denies a tool at a limit with the reason.

    The tool counts when it is allowed: no hook says for certain that it has run.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def __call__(self, data: Any, tool_use_id: str | None, context: Any) -> Any:
        """Return the decision on one call of a tool."""
        name = data["tool_name"]
        try:
            async with BudgetedToolCall(self._accounts, name):
                return {}
        except Exception as error:  # noqa: BLE001 - a hook that fails would let the tool run
            return {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": refusal_text(name, error),
                }
            }

    @property
    def matcher(self) -> HookMatcher:
        """The entry for `hooks={"PreToolUse": […]}` of the options."""
        waits = [account.wait for account in self._accounts]
        matcher = HookMatcher(hooks=[self], timeout=_HOOK_SECONDS + max(waits, default=0))
        if any(field.name == "on_failure" for field in fields(matcher)):
            matcher.on_failure = "block"
        return matcher


class ClaudeBudget:
    """A budget for agents of claude-agent-sdk, to be entered; `options` gives it to them.

    While it lasts, a proxy on this machine keeps the model calls of the agent's program within the
    budget, those of its sub-agents too, and tells the model near a limit. Tools are counted by a
    hook. `limits`, `ledger`, `account` and the options are those of `budgeted`. The `with` blocks
    around it count as well.

    `upstream` is the URL that the proxy passes calls on to; by default `ANTHROPIC_BASE_URL`, else
    Anthropic's API.
    """

    def __init__(
        self,
        limits: str = "",
        *,
        ledger: Any = None,
        account: str | None = None,
        upstream: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._begin(
            accounts_of(limits or None, ledger, account, Caller("claude-agent"), **options),
            upstream,
        )

    @classmethod
    def of_accounts(cls, accounts: Accounts, upstream: str | None = None) -> Self:
        """Return a budget that draws on accounts."""
        made = object.__new__(cls)
        made._begin(accounts, upstream)
        return made

    def _begin(self, accounts: Accounts, upstream: str | None) -> None:
        upstream = upstream or os.environ.get(URL) or _ANTHROPIC
        self.proxy = Proxy({"anthropic": upstream}, accounts, notices=True)
        self.hook = ToolHook(accounts)
        self._running = ExitStack()
        self._url: str | None = None

    def __enter__(self) -> Self:
        self._url = self._running.enter_context(self.proxy.running())
        return self

    def __exit__(self, *error: object) -> None:
        self._url = None
        self._running.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the agent's program finds the proxy."""
        if self._url is None:
            raise RuntimeError("enter the ClaudeBudget first: with ClaudeBudget('$5') as budget:")
        return {URL: self._url, **direct_to_loopback(os.environ)}

    def options(self, options: "ClaudeAgentOptions | None" = None) -> ClaudeAgentOptions:
        """Return options like those given, by which an agent stays within the budget."""
        options = options or ClaudeAgentOptions()
        hooks = dict(options.hooks or {})
        hooks["PreToolUse"] = [*hooks.get("PreToolUse", []), self.hook.matcher]
        return replace(options, env={**options.env, **self.environment}, hooks=hooks)


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return `ClaudeAgentOptions` like those given, by which an agent stays within accounts.

    Its proxy passes calls on to the `ANTHROPIC_BASE_URL` of the options, if they have one, and runs
    until nothing uses the options any more.
    """
    if not isinstance(what, ClaudeAgentOptions):
        raise ValueError(f"budgeted takes ClaudeAgentOptions, not {what!r}")
    budget = ClaudeBudget.of_accounts(accounts, what.env.get(URL))
    budget.__enter__()
    # whatever copy of the options there is has the hook
    weakref.finalize(budget.hook, budget._running.close)
    return budget.options(what)
