"""Budgets round the models, tools and agents of smolagents."""

from collections.abc import Iterator
from typing import Any

try:
    from smolagents import LocalPythonExecutor, MultiStepAgent, Tool, ToolCallingAgent
    from smolagents.models import Model
except ImportError as error:
    raise ImportError("smolagents is missing: pip install 'microbudget[smolagents]'") from error

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.provider import ChatResponse
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.provider_errors import UnbilledError, as_settled
from budget_cpython.adapters.smolagents_model import FINAL_ANSWER, ModelCall
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.deadline import Deadline


def budgeted(what: Any, layers: tuple[Layer, ...]) -> Any:
    """Return a model, a tool or an agent like the one given, whose calls draw on layers.

    An agent's model and tools, and those of its managed agents, draw on them. It shares its memory
    with the one given. In its last call that the budget allows, its model gets no tools, and what
    it says is the run's final answer.
    """
    if isinstance(what, Model):
        return _budgeted_model(what, layers)
    if isinstance(what, Tool):
        return _budgeted_tool(what, layers)
    if isinstance(what, MultiStepAgent):
        return _budgeted_agent(what, layers)
    raise ValueError(f"budgeted takes a Model, a Tool or an agent of smolagents, not {what!r}")


def _budgeted_agent(agent: Any, layers: tuple[Layer, ...], answers: bool = False) -> Any:
    """Return an agent on a budget; with `answers` its refused call as a tool is answered."""
    reads = isinstance(agent, ToolCallingAgent)  # a CodeAgent's code needs an error
    new = _twin(agent, layers, lambda kind, all_layers: _called_kind(kind, all_layers, answers))
    new.__dict__ = dict(agent.__dict__)
    new.model = budgeted(agent.model, layers)
    if isinstance(getattr(agent, "python_executor", None), LocalPythonExecutor | None):
        new.tools = {
            name: tool if name == FINAL_ANSWER else _budgeted_tool(tool, layers, reads)
            for name, tool in agent.tools.items()
        }
    new.managed_agents = {
        name: _budgeted_agent(child, layers, reads) for name, child in agent.managed_agents.items()
    }
    return new


def _budgeted_tool(tool: Any, layers: tuple[Layer, ...], answers: bool = False) -> Any:
    return _twin(tool, layers, lambda kind, all_layers: _called_kind(kind, all_layers, answers))


def _budgeted_model(model: Any, layers: tuple[Layer, ...]) -> Any:
    return _twin(model, layers, _model_kind)


def _twin(what: Any, layers: tuple[Layer, ...], kind_of: Any) -> Any:
    """Return an object of a subclass that has the very state of the one given."""
    kind, own = getattr(type(what), "_budgeted", (type(what), ()))
    layers = (*own, *layers)
    new_kind = kind_of(kind, layers)
    new_kind._budgeted = (kind, layers)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(new_kind, name, getattr(kind, name))
    twin = object.__new__(new_kind)
    twin.__dict__ = what.__dict__
    return twin


def _called_kind(kind: Any, layers: tuple[Layer, ...], answers: bool) -> Any:
    """Return a kind of tool, or of managed agent, whose calls are counted.

    A refused one raises, or is answered with the reason.
    """

    class Budgeted(kind):  # type: ignore[misc]
        def __call__(self, *given: Any, **options: Any) -> Any:
            call = BudgetedToolCall(layers, self.name or "")
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

    return Budgeted


def _model_kind(kind: Any, layers: tuple[Layer, ...]) -> Any:
    class Budgeted(kind):  # type: ignore[misc]
        def generate(
            self,
            messages: Any,
            stop_sequences: Any = None,
            response_format: Any = None,
            tools_to_call_from: Any = None,
            **options: Any,
        ) -> Any:
            options |= _given(stop_sequences, response_format, tools_to_call_from)
            asked = ModelCall(self, kind, layers, messages, options, False)
            asked.admit()
            try:
                answer = kind.generate(asked.model, asked.messages, **asked.options)
            except BaseException as error:
                _fail(asked, error)
                raise
            return asked.end(answer)

    class BudgetedStream(Budgeted):
        def generate_stream(
            self,
            messages: Any,
            stop_sequences: Any = None,
            response_format: Any = None,
            tools_to_call_from: Any = None,
            **options: Any,
        ) -> Iterator[Any]:
            options |= _given(stop_sequences, response_format, tools_to_call_from)
            asked = ModelCall(self, kind, layers, messages, options, True)
            asked.admit()
            try:
                pieces = kind.generate_stream(asked.model, asked.messages, **asked.options)
                yield from _watched(asked, pieces)
            except BaseException as error:
                _fail(asked, error)
                raise
            asked.call.end_blocking(ChatResponse(""))

    return BudgetedStream if hasattr(kind, "generate_stream") else Budgeted


def _given(stop_sequences: Any, response_format: Any, tools: Any) -> dict[str, Any]:
    return {
        "stop_sequences": stop_sequences,
        "response_format": response_format,
        "tools_to_call_from": tools,
    }


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


def _fail(asked: ModelCall, error: BaseException) -> None:
    """Settle a call that failed; raises `DeadlineExceeded` if it has passed meanwhile."""
    if not isinstance(error, Exception):
        asked.call.abandon()
        return
    unsent = isinstance(error, NotImplementedError)  # such as a stream with tools
    asked.call.fail_blocking(UnbilledError() if unsent else as_settled(error))
    if not isinstance(error, DeadlineExceeded):
        try:
            Deadline.current().check_or_raise()
        except DeadlineExceeded as late:
            raise late from error
