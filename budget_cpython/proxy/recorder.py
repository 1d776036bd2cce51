"""The layers around a call's accounts: they record its usage, and keep what it sends unchanged."""

from typing import Any

from budget_core.settlement import Settlement
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel


class _Around:
    """What a call passes as it passes a layer, but that is no account."""

    max_tokens: int | None = None

    def __init__(self) -> None:
        self.ledger = self
        self.account = type(self).__name__

    def wrapper(self, is_blocking: bool) -> Any:
        """Return what calls pass."""
        return self


class Quiet(_Around):
    """The layer around the accounts of a call that takes no notices: they see no tools.

    So they withdraw none. The tools still count as a part of the prompt. `AsAsked` puts back what
    was asked.
    """

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Pass a call on."""
        if tools:
            counted = {"name": "", "arguments": {"tools": tools}}
            messages = [*messages, {"role": "system", "tool_calls": [{"function": counted}]}]
        return await call.next_answer(messages, None, model, **options)


class AdmissionMark(_Around):
    """A layer of one call that tells whether it was admitted, and so may have been sent."""

    is_set = False

    async def chat(self, *arguments: Any, call: Any, **options: Any) -> Any:
        """Note it, and pass the call on."""
        self.is_set = True
        return await call.next_answer(*arguments, **options)


class AsAsked(_Around):
    """The innermost layer below `Quiet`: it sends the messages and tools that were asked."""

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Pass a call on as it was asked."""
        request = call.request
        return await call.next_answer(request.messages, request.tools, model, **options)


class Recorder(_Around):
    """The outermost layer: it adds what calls are charged to a record, by model.

    That is the charge of the innermost account; without an account, what the call used.
    """

    def __init__(self, record: UsageByModel, has_account: bool) -> None:
        super().__init__()
        self._record = record
        self._has_account = has_account

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Wait for the answer, and note what the call is charged."""
        asked = (messages, tools, options.get("on_delta"), options.get("service_tier"))
        response = failure = None
        try:
            response = await call.next_answer(messages, tools, model, **options)
            return response
        except BaseException as error:
            failure = error
            raise
        finally:
            if self._has_account:
                self._note(call, call.charge)
            else:
                self._note(call, (None, Settlement(response, failure, *asked)))
            failure = None

    def _note(self, call: Any, charge: Any) -> None:
        if charge is None or not charge[1].billed:
            return
        hold, outcome = charge
        usage = outcome.usage
        if hold is None:
            tokens, (cost, is_priced) = usage.total, outcome.cost(None)
        else:
            tokens, cost = hold.charged.get("tokens", usage.total), hold.charged.get("nano_usd")
            is_priced = hold.priced
        prompt = usage.input or 0
        used = ModelUsage(
            calls=1,
            input=prompt,
            output=max(0, tokens - prompt),
            cached=usage.cached,
            nano_usd=cost or 0,
            estimated=int(outcome.estimated),
            unpriced=int(not is_priced),
        )
        self._record.add(call.model, used)
