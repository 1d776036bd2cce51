"""One LLM call: what is sent, what its accounts hold for it, and its end."""

from budget_core.settlement import Settlement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from budget_core._types import CallAccount, Messages, Tools


class Call:
    """One LLM call that draws on accounts.

    - `messages`, `tools`, `model` and `options`: what is sent. An account may change them while it
      holds.
    - `answer`: one that an account gives in the model's place; then nothing is sent.
    - `held`: the accounts that hold something for the call, each with its hold.
    - `is_admitted`: whether all its accounts hold, and none has answered.
    - `outcome`: the call's `Settlement`, once it is settled.
    """

    answer: "Any" = None
    outcome: "Settlement | None" = None
    is_admitted = False

    def __init__(
        self,
        messages: "Messages",
        tools: "Tools | None" = None,
        model: str | None = None,
        options: "dict[str, Any] | None" = None,
    ) -> None:
        self.messages = messages
        self.tools = tools
        self.model = model
        self.options = {} if options is None else options
        self.held: list[tuple[CallAccount, Any]] = []

    async def admit(self, accounts: "Iterable[CallAccount]") -> None:
        """Hold on each account in order.

        Where an account answers in the model's place, or raises, the call is not sent, and the
        accounts before it get their holds back.
        """
        try:
            for account in accounts:
                hold = await account.hold(self)
                if self.answer is not None:
                    await self.settle(self.answer, None, False)
                    return
                self.held.append((account, hold))
        except BaseException as error:
            try:
                error.sent = False  # type: ignore[attr-defined] # an outer wrapper counts no usage
            except AttributeError:
                pass  # a built-in exception of MicroPython, which takes no attributes
            await self.settle(None, error, False)
            raise
        self.is_admitted = True

    async def settle(
        self, response: "Any" = None, error: BaseException | None = None, sent: bool = True
    ) -> None:
        """Settle the call once, by its response or the error in its place; both if it was cut.

        The last account comes first. If one is cancelled or raises, the others settle without
        awaiting, and the first such error is raised then. With a `GeneratorExit` as the error
        nothing is awaited.
        """
        if self.outcome is not None:
            return
        options, asked = self.options, (self.messages, self.tools)
        streamed, tier = options.get("on_delta"), options.get("service_tier")
        self.outcome = outcome = Settlement(response, error, *asked, streamed, tier, sent)
        broken: BaseException | None = None
        for account, hold in reversed(self.held):
            try:
                await account.settle(hold, outcome)
            except BaseException as raised:  # noqa: BLE001 - the others are settled all the same
                outcome.closing = True  # without awaiting, which could be broken off again
                broken = broken or raised
        if broken is not None:
            raise broken
