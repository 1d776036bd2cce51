"""smolagents' models, tools and agents on a budget, with the real package and endpoint."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

pytest.importorskip("smolagents")

from smolagents import AgentLogger, CodeAgent, OpenAIServerModel, Tool, ToolCallingAgent, tool
from smolagents.utils import AgentGenerationError

from budget_core.ledger.waiting import room_of
from budget_core.repeats import RepeatedCallError
from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, budgeted, open_ledger
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall, ScriptedUsage
from tests.adapters.support import run_example

ASK = [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
SEARCH = ScriptedToolCall("search", '{"words": "whales"}')
HAS_PARALLEL = "max_tool_threads" in signature(ToolCallingAgent.__init__).parameters


@pytest.fixture
def searched() -> list[str]:
    return []


@pytest.fixture
def search(searched: list[str]) -> Any:
    @tool  # type: ignore[untyped-decorator]
    def search(words: str) -> str:
        """Find books.

        Args:
            words: what they are about.
        """
        searched.append(words)
        return f"2 books on {words}"

    return search


def a_model(endpoint: ScriptedEndpoint, name: str = "gpt-4o-mini", **options: Any) -> Any:
    return OpenAIServerModel(
        name,
        api_base=endpoint.base_url,
        api_key="none",
        client_kwargs={"max_retries": 0, **options.pop("client_kwargs", {})},
        **options,
    )


def an_agent(
    endpoint: ScriptedEndpoint, kind: Any, tools: list[Any], *, steps: int = 9, **options: Any
) -> Any:
    return kind(tools, a_model(endpoint), max_steps=steps, verbosity_level=0, **options)


def asks_for(*calls: ScriptedToolCall) -> Callable[[Asked], Reply]:
    """Return a model that calls tools, or writes such code, until it has to answer."""

    def reply(asked: Asked) -> Reply:
        if asked.tools:
            return Reply(calls=calls)
        if "[Budget exhausted]" in str(asked.messages[-1]["content"]):
            return Reply("Two books, with `code` and </code>.")
        return Reply("I look.\n```py\nprint(search(words='whales'))\n```<end_code>")

    return reply


def last_text(endpoint: ScriptedEndpoint, number: int) -> str:
    content = endpoint.requests[number].body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def spent(ledger: Any, axis: str) -> int:
    (found,) = [row.spent + row.held for row in ledger.balance("acme") if row.axis == axis]
    return int(found)


@pytest.mark.feature("refusal")
def test_a_refused_call_is_not_sent(endpoint: ScriptedEndpoint) -> None:
    model = budgeted(a_model(endpoint), "1 call")
    assert model.generate(ASK).content
    with pytest.raises(BudgetExceededError, match="agent has 0 of 1 calls"):
        model.generate(ASK)
    assert len(endpoint.requests) == 1


@pytest.mark.feature("refusal")
def test_the_same_call_again_and_again_is_refused(endpoint: ScriptedEndpoint) -> None:
    model = budgeted(a_model(endpoint), "99 calls", repeats=3)
    for _ in range(2):
        model.generate(ASK)
    with pytest.raises(RepeatedCallError, match="repeats=3"):
        model.generate(ASK)
    assert len(endpoint.requests) == 2


@pytest.mark.feature("refusal")
@pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
def test_a_refusal_ends_a_run_with_the_error_of_smolagents_and_keeps_its_steps(
    endpoint: ScriptedEndpoint, search: Any, kind: Any
) -> None:
    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    agent = an_agent(endpoint, kind, [search])
    inner = agent.model
    agent.model = budgeted(inner, "0 calls")
    with pytest.raises(AgentGenerationError) as refused:
        agent.run("Find books.")
    assert isinstance(refused.value.__cause__, BudgetExceededError)
    assert endpoint.requests == []
    assert len(agent.memory.steps) == 2  # the task, and the step that was refused


@pytest.mark.feature("notice")
@pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
def test_the_model_is_told_in_one_call_and_nothing_is_kept(
    endpoint: ScriptedEndpoint, search: Any, kind: Any
) -> None:
    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    agent = budgeted(
        an_agent(endpoint, kind, [search], steps=4), "8 calls", warning_thresholds=(0.25,)
    )
    agent.run("Find books.")
    told = [n for n in range(len(endpoint.requests)) if "25% of your" in last_text(endpoint, n)]
    assert told == [2]
    assert last_text(endpoint, 2).endswith("answer the user soon.")
    assert "25% of your" not in str(endpoint.requests[3].body["messages"])
    assert "25% of your" not in str(agent.memory.get_full_steps())


@pytest.mark.feature("tool withdrawal")
def test_named_tools_are_withdrawn_near_a_limit(endpoint: ScriptedEndpoint, search: Any) -> None:
    @tool  # type: ignore[untyped-decorator]
    def buy(book: str) -> str:
        """Buy a book.

        Args:
            book: which one.
        """
        return book

    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    agent = budgeted(
        an_agent(endpoint, ToolCallingAgent, [search, buy], steps=3),
        "8 calls",
        tool_strip_threshold=0.25,
        tool_strip_disallow=("buy",),
    )
    agent.run("Find books.")
    offered = [
        {one["function"]["name"] for one in request.body.get("tools", ())}
        for request in endpoint.requests
    ]
    assert offered[:3] == [{"search", "buy", "final_answer"}] * 2 + [{"search", "final_answer"}]
    assert "Tool buy is disabled" in last_text(endpoint, 2)


@pytest.mark.feature("fallback")
def test_a_cheaper_model_answers_at_a_limit(endpoint: ScriptedEndpoint) -> None:
    plain = a_model(endpoint, "gpt-4", max_tokens=100)
    model = budgeted(plain, "$0.0001", fallback_model="gpt-4o-mini")
    assert model.generate(ASK).content
    assert endpoint.requests[0].body["model"] == "gpt-4o-mini"
    assert (model.model_id, plain.model_id) == ("gpt-4", "gpt-4")


@pytest.mark.feature("reserved final call")
@pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
@pytest.mark.parametrize("stream", [False, True])
def test_the_last_call_is_the_run_s_final_answer(
    endpoint: ScriptedEndpoint, search: Any, searched: list[str], kind: Any, stream: bool
) -> None:
    if stream and kind is ToolCallingAgent and not HAS_PARALLEL:
        pytest.skip("this version streams no tool calls")
    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    options = {"stream_outputs": True} if stream else {}
    agent = budgeted(an_agent(endpoint, kind, [search], **options), "3 calls")
    assert agent.run("Find books.") == "Two books, with `code` and </code>."
    assert searched == ["whales"] * 2
    assert "tools" not in endpoint.requests[2].body
    assert "This is your last answer" in last_text(endpoint, 2)


def test_a_final_answer_that_a_code_agent_gives_itself_stays(
    endpoint: ScriptedEndpoint, search: Any
) -> None:
    def reply(asked: Asked) -> Reply:
        if "[Budget exhausted]" in str(asked.messages[-1]["content"]):
            return Reply("Thought: done.\n```py\nfinal_answer('two')\n```<end_code>")
        return Reply("I look.\n```py\nprint(search(words='whales'))\n```<end_code>")

    endpoint.scripts["gpt-4o-mini"] = reply
    assert budgeted(an_agent(endpoint, CodeAgent, [search]), "2 calls").run("Find.") == "two"


def test_structured_outputs_end_with_a_final_answer_too(
    endpoint: ScriptedEndpoint, search: Any
) -> None:
    def reply(asked: Asked) -> Reply:
        if "[Budget exhausted]" in str(asked.messages[-1]["content"]):
            return Reply("Two books.")
        return Reply('{"thought": "I look.", "code": "print(search(words=\'whales\'))"}')

    endpoint.scripts["gpt-4o-mini"] = reply
    agent = an_agent(endpoint, CodeAgent, [search], use_structured_outputs_internally=True)
    assert budgeted(agent, "2 calls").run("Find.") == "Two books."


@pytest.mark.feature("child agents")
@pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
def test_managed_agents_draw_on_their_manager_s_budget(
    endpoint: ScriptedEndpoint, search: Any, kind: Any
) -> None:
    def reply(asked: Asked) -> Reply:
        text = str(asked.messages)
        if "[Budget exhausted]" in str(asked.messages[-1]["content"]):
            return Reply("Enough.")
        if "helpful agent named 'librarian'" in text:
            return Reply(calls=(SEARCH,))
        if asked.tools:
            return Reply(calls=(ScriptedToolCall("librarian", '{"task": "Find books."}'),))
        return Reply("I ask.\n```py\nprint(librarian(task='Find books.'))\n```<end_code>")

    endpoint.scripts["gpt-4o-mini"] = reply
    child = an_agent(
        endpoint, ToolCallingAgent, [search], name="librarian", description="Finds books."
    )
    ledger = open_ledger("memory:")
    agent = budgeted(
        an_agent(endpoint, kind, [], managed_agents=[child]),
        "5 calls + 9 tool_calls",
        ledger=ledger,
        account="acme",
    )
    with pytest.raises(AgentGenerationError):  # its librarian used the last call
        agent.run("Find books.")
    assert spent(ledger, "calls") == len(endpoint.requests) == 5
    assert spent(ledger, "tool_calls") == 4  # the librarian, and its searches


def test_a_managed_agent_that_is_refused_as_a_tool_is_not_run(
    endpoint: ScriptedEndpoint, search: Any
) -> None:
    def reply(asked: Asked) -> Reply:
        if "was not called" in str(asked.messages[-1]["content"]):
            return Reply(calls=(ScriptedToolCall("final_answer", '{"answer": "alone"}'),))
        return Reply(calls=(ScriptedToolCall("librarian", '{"task": "Find books."}'),))

    endpoint.scripts["gpt-4o-mini"] = reply
    child = an_agent(
        endpoint, ToolCallingAgent, [search], name="librarian", description="Finds books."
    )
    agent = an_agent(endpoint, ToolCallingAgent, [], managed_agents=[child])
    assert budgeted(agent, "0 tool:librarian").run("Find books.") == "alone"
    assert len(endpoint.requests) == 2


def test_a_refused_tool_tells_the_model_why(
    endpoint: ScriptedEndpoint, search: Any, searched: list[str]
) -> None:
    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    agent = budgeted(an_agent(endpoint, ToolCallingAgent, [search], steps=3), "1 tool:search")
    agent.run("Find books.")
    assert "The tool search was not called: agent has 0 of 1 search" in last_text(endpoint, 2)
    assert searched == ["whales"]


def test_a_refused_tool_is_an_error_in_the_code_of_a_code_agent(
    endpoint: ScriptedEndpoint, search: Any, searched: list[str]
) -> None:
    endpoint.scripts["gpt-4o-mini"] = asks_for(SEARCH)
    agent = budgeted(an_agent(endpoint, CodeAgent, [search], steps=3), "1 tool:search")
    agent.run("Find books.")
    assert "BudgetExceededError: agent has 0 of 1 search" in last_text(endpoint, 2)
    assert searched == ["whales"]


def test_a_tool_has_a_price_and_a_final_answer_is_none(
    endpoint: ScriptedEndpoint, search: Any
) -> None:
    answer = ScriptedToolCall("final_answer", '{"answer": "two"}')
    replies = iter([Reply(calls=(SEARCH,)), Reply(calls=(answer,))])
    endpoint.scripts["free"] = lambda asked: next(replies)
    ledger = open_ledger("memory:")
    agent = ToolCallingAgent([search], a_model(endpoint, "free"), verbosity_level=0)
    budgeted_agent = budgeted(agent, "9 tool_calls + 9 tool:search", ledger=ledger, account="acme")
    assert budgeted_agent.run("Find books.") == "two"
    assert (spent(ledger, "tool_calls"), spent(ledger, "search")) == (1, 1)


def test_a_tool_alone_raises(search: Tool, searched: list[str]) -> None:
    one = budgeted(search, "$0.01", tool_prices={"search": "0.01"})
    assert isinstance(one, Tool)
    assert one(words="whales") == "2 books on whales"
    with pytest.raises(BudgetExceededError):
        one(words="boats")
    assert searched == ["whales"]


@pytest.mark.feature("parallel tools")
@pytest.mark.skipif(not HAS_PARALLEL, reason="this version runs one tool of an answer")
def test_tools_side_by_side_do_not_exceed_the_budget(
    endpoint: ScriptedEndpoint, search: Any, searched: list[str]
) -> None:
    endpoint.scripts["gpt-4o-mini"] = asks_for(*[SEARCH] * 4)
    agent = budgeted(an_agent(endpoint, ToolCallingAgent, [search], steps=1), "3 tool:search")
    agent.run("Find books.")
    assert searched == ["whales"] * 3
    assert last_text(endpoint, 1).count("was not called") == 1
    assert str(endpoint.requests[1].body["messages"]).count("2 books on whales") == 3


@pytest.mark.feature("wait")
def test_a_call_waits_for_what_another_holds(endpoint: ScriptedEndpoint) -> None:
    ledger = open_ledger("memory:")
    model = budgeted(a_model(endpoint), "2 calls", ledger=ledger, account="acme", wait=60)
    held = ledger.reserve("acme", {"calls": 2})
    thread = threading.Thread(target=model.generate, args=(ASK,))
    thread.start()
    while room_of(ledger).waiting != 1:
        time.sleep(0.001)
    ledger.release(held)
    thread.join()
    assert len(endpoint.requests) == 1
    assert spent(ledger, "calls") == 1


@pytest.mark.feature("stream")
def test_a_stream_passes_as_it_comes_and_is_counted(endpoint: ScriptedEndpoint) -> None:
    seen: list[str] = []
    halfway = threading.Event()
    endpoint.scripts["gpt-4o-mini"] = Reply("word " * 20, halfway=lambda: halfway.wait(60))
    ledger = open_ledger("memory:")
    model = budgeted(a_model(endpoint), "9999 tokens", ledger=ledger, account="acme")
    for piece in model.generate_stream(ASK):
        seen.append(piece.content or "")
        halfway.set()
    assert "".join(seen) == "word " * 20
    usage = endpoint.answers[0].usage
    assert usage is not None
    assert spent(ledger, "tokens") == usage.prompt + usage.completion


@pytest.mark.feature("broken stream")
@pytest.mark.parametrize("is_left", [False, True])
def test_a_broken_stream_counts_as_its_hold(endpoint: ScriptedEndpoint, is_left: bool) -> None:
    ledger = open_ledger("memory:")
    plain = a_model(endpoint, "scripted" if is_left else "stream-cut", max_tokens=100)
    model = budgeted(plain, "9999 tokens", ledger=ledger, account="acme")
    stream = model.generate_stream(ASK)
    next(stream)
    held = spent(ledger, "tokens")
    if is_left:
        stream.close()
    else:
        with pytest.raises(Exception, match=r"error|peer|closed|complete"):
            list(stream)
    assert spent(ledger, "tokens") == held > 100


@pytest.mark.feature("abort")
@pytest.mark.parametrize("stream", [False, True])
def test_an_interrupted_call_counts(endpoint: ScriptedEndpoint, stream: bool) -> None:
    main, over = threading.get_ident(), threading.Event()

    def interrupt(asked: Asked) -> Reply:
        signal.pthread_kill(main, signal.SIGINT)
        over.wait(60)
        return Reply("Late.")

    endpoint.scripts["gpt-4o-mini"] = interrupt
    model = a_model(endpoint)
    with budget("9 calls") as block:
        with pytest.raises(KeyboardInterrupt):
            list(budgeted(model).generate_stream(ASK)) if stream else budgeted(model).generate(ASK)
        over.set()
    assert block.left["calls"] == 8


@pytest.mark.feature("deadline")
@pytest.mark.parametrize("name", ["hang", "stream-hang"])
def test_a_call_ends_at_the_deadline(endpoint: ScriptedEndpoint, name: str) -> None:
    model = budgeted(a_model(endpoint, name, client_kwargs={"max_retries": 2}))
    budgeted(a_model(endpoint)).generate(ASK)  # what is slow the first time is done
    with budget("1.5 s + 9 calls") as block:
        with pytest.raises(DeadlineExceeded):
            list(model.generate_stream(ASK)) if "stream" in name else model.generate(ASK)
        with pytest.raises(DeadlineExceeded):
            model.generate(ASK)
    assert [request.body["model"] for request in endpoint.requests[1:]] == [name]
    assert block.left["calls"] == 8


def test_the_limit_of_an_answer_is_lowered_with_its_hold(endpoint: ScriptedEndpoint) -> None:
    budgeted(a_model(endpoint), "100 tokens").generate(ASK)
    budgeted(a_model(endpoint, max_tokens=500), "100 tokens").generate(ASK)
    budgeted(a_model(endpoint, max_tokens=20), "100 tokens").generate(ASK)
    first, second, third = [request.body for request in endpoint.requests]
    assert 50 < first["max_completion_tokens"] < 100
    assert second["max_tokens"] == first["max_completion_tokens"]
    assert third["max_tokens"] == 20


def test_what_the_provider_reports_is_charged(endpoint: ScriptedEndpoint) -> None:
    usage = ScriptedUsage(prompt=1000, completion=100, cached=1000)
    endpoint.scripts["gpt-4o-mini"] = Reply("Hello.", usage=usage)
    ledger = open_ledger("memory:")
    budgeted(a_model(endpoint), "$1", ledger=ledger, account="acme").generate(ASK)
    assert spent(ledger, "nano_usd") == 1000 * 75 + 100 * 600  # all of its prompt was cached


@pytest.mark.parametrize("name", ["error-400", "error-500"])
def test_a_call_that_the_provider_refuses_costs_nothing(
    endpoint: ScriptedEndpoint, name: str
) -> None:
    ledger = open_ledger("memory:")
    model = budgeted(a_model(endpoint, name), "9 calls", ledger=ledger, account="acme")
    with pytest.raises(Exception, match=name):
        model.generate(ASK)
    assert spent(ledger, "calls") == 0


@pytest.mark.feature("retries")
def test_attempts_of_the_model_s_client_count_unless_the_provider_refused_them(
    endpoint: ScriptedEndpoint,
) -> None:
    def breaks_first(asked: Asked) -> Reply:
        if len(endpoint.requests) == 3:
            raise ConnectionError
        return Reply("Two books.")

    endpoint.scripts["breaks"] = breaks_first
    ledger = open_ledger("memory:")
    for name, requests, calls in (("busy", 2, 1), ("breaks", 4, 3)):
        plain = a_model(endpoint, name, client_kwargs={"max_retries": 2})
        budgeted(plain, "3 calls", ledger=ledger, account="acme").generate(ASK)
        assert len(endpoint.requests) == requests
        assert spent(ledger, "calls") == calls
    with pytest.raises(BudgetExceededError):
        budgeted(plain, ledger=ledger, account="acme").generate(ASK)
    assert len(endpoint.requests) == 4


def test_budgets_round_a_model_add_up_and_a_block_counts_once(endpoint: ScriptedEndpoint) -> None:
    model = budgeted(budgeted(a_model(endpoint), "9 calls"), "1 call/day", account="inner")
    assert isinstance(model, OpenAIServerModel)
    with budget("9 calls") as block:
        model.generate(ASK)
        with pytest.raises(BudgetExceededError, match="inner"):
            model(ASK)
    assert block.left["calls"] == 8


def test_a_notice_follows_a_message_whose_content_is_a_text(endpoint: ScriptedEndpoint) -> None:
    model = budgeted(a_model(endpoint), "2 calls", warning_thresholds=(0.5,))
    asked = [{"role": "user", "content": "Hello?"}]
    model.generate(asked)
    model.generate(asked)
    assert last_text(endpoint, 1).startswith("Hello?\n[Budget notice]")
    assert asked == [{"role": "user", "content": "Hello?"}]


def test_what_has_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match="a Model, a Tool or an agent"):
        budgeted(AgentLogger(), "1 call")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smolagents", None)
    monkeypatch.delitem(sys.modules, "budget_cpython.adapters.frameworks.smolagents", raising=False)
    with pytest.raises(ImportError, match=r"microbudget\[smolagents\]"):
        import_module("budget_cpython.adapters.frameworks.smolagents")


def test_the_example_runs() -> None:
    printed = run_example("with_smolagents.py")
    assert "calls used: 4 of 4" in printed
