"""A provider that keeps the calls of an agent loop within a budget."""

from budget_core.config import Enforcement, check_enforcement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Hook, Messages, Provider, Tools
    from budget_core.ledger._types import AnyLedger
    from budget_core.tracker import BudgetTracker


class BudgetWrapper:
    """A provider around another that warns, strips tools, cuts off or demotes as a budget is used.

    Wrappers stack. `enforcement` and `fallback_model` come from the tracker's configuration unless
    given; a fallback model given here does not count against the tracker's day either. Notices are
    appended to the one outgoing call; the caller's list is left alone.

    Hooks are plain functions called by keyword: `on_threshold_crossed(scope, threshold,
    utilization, used, cap, unit)` and `on_limit_reached` with the same less `threshold`, each once
    a crossing. One that raises never breaks the call: the first such error is logged, the
    last one is kept as `hook_error`.

    With `estimates` a call that reports no usage is charged an estimate of its prompt and answer,
    unless it was refused or never sent; without, it counts as a call whose usage is missing.

    With a `ledger` and the path of an `account` in it, what a call may use is held there before it
    is made, and what it did is recorded after; a tracker is not needed then. `prices`,
    `count_tokens`, `max_tokens`, `ttl`, `key`, `raises`, `wait` and `expect` belong to it; see
    docs/ledger.md.

    With `repeats`, `RepeatedCallError` is raised in place of a call that would be that many in a
    row with the same model, messages and tools; under `WARN` and `OBSERVE` nothing is refused.

    Everything else is the inner provider's: further arguments and attributes pass through, so one
    that streams still streams. Raises `ValueError` for an unknown mode, and for `FALLBACK` without
    a `fallback_model`.
    """

    ledger_account: "Any" = None

    def __init__(
        self,
        inner: "Provider",
        tracker: "BudgetTracker | None" = None,
        enforcement: str | None = None,
        fallback_model: str | None = None,
        on_threshold_crossed: "Hook | None" = None,
        on_limit_reached: "Hook | None" = None,
        estimates: bool = False,
        repeats: int | None = None,
        *,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        prices: "Any" = None,
        count_tokens: "Callable[[Any, Any], int] | None" = None,
        max_tokens: int | None = None,
        ttl: float | None = None,
        key: "Callable[[], str] | None" = None,
        raises: bool = False,
        wait: float | None = None,
        expect: int | str | None = None,
    ) -> None:
        if not callable(getattr(inner, "chat", None)):
            from budget_core.provider import check_provider  # loaded to refuse

            check_provider("inner", inner)
        options = (account, prices, count_tokens, max_tokens, ttl, key, raises, wait, expect)
        if ledger is not None or any(options):
            from budget_core.ledger.enforced_account import draw_on  # loaded for the first ledger

            tracker, self.ledger_account = draw_on(
                self, inner, tracker, enforcement, ledger, *options
            )
        if tracker is None or not hasattr(tracker, "alert"):
            raise ValueError(f"tracker must be a BudgetTracker, or give a ledger, not {tracker!r}")
        self.inner = inner
        self.tracker = tracker
        self.enforcement = check_enforcement(
            "enforcement", tracker.config.enforcement if enforcement is None else enforcement
        )
        self.fallback_model = tracker.fallback_model = fallback_model or tracker.fallback_model
        if self.enforcement == Enforcement.FALLBACK and not self.fallback_model:
            raise ValueError("fallback needs a fallback_model")
        self.on_threshold_crossed = on_threshold_crossed
        self.on_limit_reached = on_limit_reached
        self.hook_error: Exception | None = None
        self.estimates = estimates
        if repeats is not None:
            from budget_core.repeats import watch  # loaded where it is wanted

            watch(self, repeats)

    def __getattr__(self, name: str) -> "Any":
        if name == "inner" or name.startswith("__"):  # asked before __init__ ran, as copy does
            raise AttributeError(name)
        account = self.ledger_account
        return getattr(account if account and name in account.SHOWN else self.inner, name)

    def get_default_model(self) -> str:
        """Return the inner provider's default model."""
        return self.inner.get_default_model()

    async def close(self) -> None:
        """Close the inner provider if it can be closed, by a plain or an async `close()`.

        The ledger gets first what it is owed.
        """
        from budget_core.provider import maybe_await  # most programs never close a provider

        for one in (self.ledger_account, self.inner):
            if hasattr(one, "close"):
                await maybe_await(one.close())

    async def chat(
        self,
        messages: "Messages",
        tools: "Tools | None" = None,
        model: str | None = None,
        *rest: "Any",
        **options: "Any",
    ) -> "Any":
        """Answer like the inner provider, within the budget; `options` are passed on as given.

        Those of the protocol may be given by position: `max_tokens`, `temperature`,
        `reasoning_effort`, `response_format`.

        A call that raises or is cancelled counts as an iteration whose usage is missing, or
        estimated; where some of its answer had reached `on_delta`, its usage is what the provider
        had reported by then, or an estimate.
        """
        if rest:
            names = "max_tokens temperature reasoning_effort response_format"
            options.update(zip(names.split(), rest))
        if self.ledger_account is not None:
            return await self.ledger_account.chat(self, messages, tools, model, options)
        tracker, inner = self.tracker, self.inner
        tracker.maybe_auto_reset()
        if tracker.alert:
            from budget_core.enforcement import enforce  # loaded near a limit

            answer, messages, tools, model = await enforce(self, messages, tools, model)
            if answer is not None:
                return answer
        counted = model
        if tracker.by_model and model is None:
            counted = inner.get_default_model()
        usage = response = failure = streamed = None
        if "on_delta" in options:
            from budget_core.usage_stream import as_streamed  # loaded for the first stream

            options["on_delta"] = streamed = as_streamed(options["on_delta"])
        try:
            response = await inner.chat(messages=messages, tools=tools, model=model, **options)
            try:
                usage = response.usage
            except Exception:  # noqa: BLE001, S110 - an answer is not lost for want of its usage
                pass
            return response
        except BaseException as error:
            failure = error
            raise
        finally:
            if self.estimates or streamed is not None:
                try:
                    from budget_core.settlement import Settlement  # for the first of those

                    outcome = Settlement(response, failure, messages, tools, streamed)
                    usage = outcome.recorded(self.estimates)
                except Exception:  # noqa: BLE001, S110 - no memory left: it is recorded as it is
                    pass
            failure = None
            tracker.record(usage, counted)
            if tracker.alert:
                from budget_core.enforcement import report_limit

                report_limit(self)
