"""A call of a tool that draws on accounts: one of `tool_calls`, one of its axis, its price."""

from collections.abc import Sequence
from typing import Any, Self

from budget_core.ledger.checks import AXES
from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.hold import Hold
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.llm_hold import LlmHold
from budget_core.ledger.outbox import finish
from budget_core.ledger.waiting import reserve_waiting
from budget_core.provider import maybe_await
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import distinct
from budget_cpython.context.deadline import Deadline
from budget_cpython.context.entered import current_accounts
from budget_cpython.ledger.limit_words import TOOL_CALLS
from budget_cpython.ledger.usage_log import note_tool_call


def refusal_text(name: str, error: Exception) -> str:
    """Return the text for a model in place of the result of a tool that its budget refused."""
    return f"[Budget] The tool {name} was not called: {error}. Go on without it."


class BudgetedToolCall:
    """One call of a tool that draws on accounts: those of the blocks around it, then its `own`.

    On each it claims one of `tool_calls`, and one of an axis with the tool's own name, where a
    limit names them, and the tool's price from the account's `tool_prices`. This is held from
    `begin` on. One of `end`, `release` and `abandon` settles it; what comes after does nothing.
    `with` and `async with` begin and end it, also where the tool raises.

    With `alone` it draws on its `own` accounts only. The blocking forms need no event loop, and
    work inside one.
    """

    def __init__(self, own: Sequence[BudgetAccount], name: str, *, alone: bool = False) -> None:
        self.name = name
        self._accounts = distinct([*(() if alone else current_accounts()), *own])
        self._held: list[tuple[BudgetAccount, LlmHold]] = []

    def begin_blocking(self) -> None:
        """Admit the call.

        Raises `BudgetExceededError` or another error of the budget, after which nothing is held,
        and `DeadlineExceeded` where the current deadline has passed.
        """
        finish(self._begin(True))

    async def begin(self) -> None:
        """Admit the call as `begin_blocking` does; the event loop goes on meanwhile."""
        await self._begin(False)

    def end_blocking(self) -> None:
        """Record the call of a tool that has run, whatever came of it."""
        finish(self.end())

    async def end(self) -> None:
        """Record the call of a tool that has run, as `end_blocking` does."""
        try:
            while self._held:
                account, hold = self._held.pop()
                note_tool_call(hold, self.name, True)
                await hold.commit(hold.amounts)
                account.note(hold.amounts)
        finally:
            self.abandon()

    async def release(self) -> None:
        """Give back what was held for a tool that was not run after all."""
        try:
            while self._held:
                await self._held.pop()[1].release()
        finally:
            self._give_back()

    def abandon(self) -> None:
        """Settle the call where nothing can be awaited; it counts as one that was made."""
        while self._held:
            _, hold = self._held.pop()
            note_tool_call(hold, self.name, False)
            hold.abandon(hold.amounts)

    def __enter__(self) -> Self:
        self.begin_blocking()
        return self

    def __exit__(self, *error: object) -> None:
        self.end_blocking()

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is GeneratorExit:
            self.abandon()
        await self.end()

    async def _begin(self, is_blocking: bool) -> None:
        Deadline.current().check_or_raise()
        try:
            for account in self._accounts:
                hold = await _hold(account, self.name, is_blocking)
                if hold is not None:
                    hold.begin()
                    self._held.append((account, hold))
        except GeneratorExit:
            self._give_back()
            raise
        except BaseException:
            await self.release()
            raise

    def _give_back(self) -> None:
        """Release what is held with the next delivery, where nothing can be awaited."""
        while self._held:
            self._held.pop()[1].abandon()


async def _hold(account: BudgetAccount, name: str, is_blocking: bool) -> LlmHold | None:
    """Hold on one account what a tool's call claims there, if it claims anything."""
    held_in = account.in_ledger(is_blocking)
    price = account.tool_prices.get(name, 0)
    asked = {TOOL_CALLS: 1, **({"nano_usd": price} if price else {})}
    try:
        counted = {row.axis for row in await maybe_await(held_in.ledger.balance(held_in.path))}
        own = [name] if name not in AXES else []
        asked = {axis: asked.get(axis, 1) for axis in [*asked, *own] if axis in counted}
        if not asked:
            return None
        return LlmHold(held_in, await _reserve(held_in, asked), None)
    except (UnknownAccountError, ValueError):
        raise  # a mistake of the caller's, not the end of a budget
    except Exception as error:
        held_in.report_refusal(error)
        if account.is_strict:
            raise
        return LlmHold(held_in, Hold(held_in.path, "", asked, Hold.RELEASED), None)


async def _reserve(account: LedgerAccount, asked: dict[str, Any]) -> Hold:
    """Reserve amounts, after what the ledger is still owed; wait for them if the account does."""
    if account.outbox.entries:
        await account.catch_up()
    wait_ms = account.wait_ms
    if not wait_ms or account.waits_elsewhere:
        return await account.hold_amounts(asked, None, wait_ms)

    async def ask(operation: str, *arguments: Any) -> Any:
        if operation == "reserve":
            return await account.hold_amounts(asked)
        return await maybe_await(getattr(account.ledger, operation)(*arguments))

    return await reserve_waiting(
        account.ledger, account.path, asked, None, account.ttl, wait_ms / 1000, ask
    )
