"""Budgets round the models, tools and agents of smolagents."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from smolagents import LocalPythonExecutor, MultiStepAgent, Tool, ToolCallingAgent
    from smolagents.models import Model
except ImportError as error:
    raise ImportError("smolagents is missing: pip install 'microbudget[smolagents]'") from error

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.provider import ChatResponse
from budget_cpython.adapters.account import Accounts
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.opened_accounts import Caller
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import pieces_blocking, settled_blocking
from budget_cpython.adapters.smolagents_model import FINAL_ANSWER, ModelCall
from budget_cpython.adapters.standing_in import twin_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.deadline import Deadline

_POSITIONS = ("stop_sequences", "response_format", "tools_to_call_from")  # of a model's arguments


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a model, a tool or an agent like the one given, whose calls draw on accounts.

    An agent's model and tools, and those of its managed agents, draw on them. It shares its memory
    with the one given. In its last call that the budget allows, its model gets no tools, and what
    it says is the run's final answer.
    """
    if isinstance(what, Model):
        return _budgeted_model(what, accounts)
    if isinstance(what, Tool):
        return _budgeted_tool(what, accounts)
    if isinstance(what, MultiStepAgent):
        return _budgeted_agent(what, accounts)
    raise ValueError(f"budgeted takes a Model, a Tool or an agent of smolagents, not {what!r}")


def caller_of(what: Any) -> Caller:
    """Return an object's `Caller`: a model calls no tools, and a tool no model."""
    is_model, is_tool = isinstance(what, Model), isinstance(what, Tool)
    return Caller("smolagents", models=not is_tool, tools=not is_model)


def _budgeted_agent(agent: Any, accounts: Accounts, answers: bool = False) -> Any:
    """Return an agent on a budget; with `answers` its refused call as a tool is answered."""
    reads = isinstance(agent, ToolCallingAgent)  # a CodeAgent's code needs an error
    new = twin_of(
        agent, accounts, lambda kind, all_accounts: _called_kind(kind, all_accounts, answers)
    )
    new.__dict__ = dict(agent.__dict__)
    new.model = budgeted(agent.model, accounts)
    if isinstance(getattr(agent, "python_executor", None), LocalPythonExecutor | None):
        new.tools = {
            name: tool if name == FINAL_ANSWER else _budgeted_tool(tool, accounts, reads)
            for name, tool in agent.tools.items()
        }
    new.managed_agents = {
        name: _budgeted_agent(child, accounts, reads)
        for name, child in agent.managed_agents.items()
    }
    return new


def _budgeted_tool(tool: Any, accounts: Accounts, answers: bool = False) -> Any:
    return twin_of(
        tool, accounts, lambda kind, all_accounts: _called_kind(kind, all_accounts, answers)
    )


def _budgeted_model(model: Any, accounts: Accounts) -> Any:
    return twin_of(model, accounts, _model_kind)


def _called_kind(kind: Any, accounts: Accounts, answers: bool) -> Any:
    """Return a kind of tool, or of managed agent, whose calls are counted.

    A refused one raises, or is answered with the reason.
    """

    class BudgetedTool(kind):  # type: ignore[misc]
        def __call__(self, *given: Any, **options: Any) -> Any:
            call = BudgetedToolCall(accounts, self.name or "")
            try:
                call.begin_blocking()
            except BudgetError as error:
                if answers:
                    return refusal_text(self.name, error)
                raise
            try:
                return super().__call__(*given, **options)
            finally:
                call.end_blocking()

    return BudgetedTool


def _model_kind(kind: Any, accounts: Accounts) -> Any:
    class BudgetedLlm(kind):  # type: ignore[misc]
        def generate(self, messages: Any, *given: Any, **options: Any) -> Any:
            asked = ModelCall(self, kind, accounts, messages, _by_name(given, options), False)
            asked.admit()
            with _settled(asked.call), asked.call.answering():
                answer = kind.generate(asked.model, asked.messages, **asked.options)
            return asked.end(answer)

    class BudgetedStream(BudgetedLlm):
        def generate_stream(self, messages: Any, *given: Any, **options: Any) -> Iterator[Any]:
            asked = ModelCall(self, kind, accounts, messages, _by_name(given, options), True)
            asked.admit()
            with _settled(asked.call):
                pieces = kind.generate_stream(asked.model, asked.messages, **asked.options)
                yield from _watched(asked, pieces_blocking(asked.call.answering, pieces))
            asked.call.end_blocking(ChatResponse(""))

    return BudgetedStream if hasattr(kind, "generate_stream") else BudgetedLlm


def _by_name(given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_POSITIONS), **dict(zip(_POSITIONS, given, strict=False)), **options}


def _watched(asked: ModelCall, pieces: Any) -> Iterator[Any]:
    """Pass on the pieces of a stream and count them; those of a final answer come as one."""
    deadline, said = Deadline.current(), []
    report = {"input_tokens": 0, "output_tokens": 0}
    try:
        for piece in pieces:
            asked.call.on_text(piece.content or "")
            for call in getattr(piece, "tool_calls", None) or ():
                asked.call.on_text((call.function and call.function.arguments) or "")
            if piece.token_usage:
                report["input_tokens"] += piece.token_usage.input_tokens
                report["output_tokens"] += piece.token_usage.output_tokens
                asked.call.report = report
            said.append(piece.content or "")
            if not asked.is_final or piece.token_usage:
                yield piece
            deadline.check_or_raise()
    finally:
        pieces.close()
    if asked.is_final:
        yield asked.final_delta("".join(said))


@contextmanager
def _settled(call: BudgetedCall) -> Iterator[None]:
    """Settle a call that fails; raises `DeadlineExceeded` if it has passed meanwhile."""
    try:
        with settled_blocking(call):
            try:
                yield
            except NotImplementedError:  # such as a stream with tools
                call.fail_blocking(UnbilledError())
                raise
    except DeadlineExceeded:
        raise
    except Exception as error:
        try:
            Deadline.current().check_or_raise()
        except DeadlineExceeded as late:
            raise late from error
        raise
