"""claude-agent-sdk on a budget: its program runs here, and calls the embedded endpoint."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
import httpx
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, query

from budget_core.ledger.waiting import room_of
from budget_cpython import budget, budgeted, open_ledger
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.run.claude_agent import URL, ClaudeBudget, ToolHook
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall
from tests.adapters.support import run_example

MODEL = "claude-sonnet-4-5"
READ = ScriptedToolCall("Read", '{"file_path": "/etc/hostname"}')
PATIENCE = 300  # seconds, where only hanging is to be seen
ASKED = {"model": MODEL, "max_tokens": 20, "messages": [{"role": "user", "content": "Hello?"}]}
HAS_PROGRAM = Path(claude_agent_sdk.__file__).with_name("_bundled").joinpath("claude").exists()
ASKS_AGAIN = claude_agent_sdk.__version__ == "0.1.19"
needs_program = pytest.mark.skipif(not HAS_PROGRAM, reason="this wheel has no claude program")


@dataclass
class Run:
    """What came of one run of the program."""

    asked: list[Asked] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    spent: dict[str, int] = field(default_factory=dict)
    calls: int = 0  # that reached the proxy
    attempts: int = 0  # those that are not the program's own
    error: Exception | None = None

    @property
    def result(self) -> Any:
        return [one for one in self.messages if isinstance(one, ResultMessage)][-1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home without settings or keys; the program gets no variable of this process's own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("CLAUDE", "ANTHROPIC")):
                patch.delenv(name)
        yield tmp_path_factory.mktemp("home")


async def prompt(text: str) -> AsyncIterator[dict[str, Any]]:
    message = {"role": "user", "content": text}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "one"}


def options_at(home: Path, **more: Any) -> ClaudeAgentOptions:
    quiet = ("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER")
    env = dict.fromkeys(quiet, "1") | {
        "ANTHROPIC_API_KEY": "none",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
    }
    given = {"model": MODEL, "max_turns": 12, "allowed_tools": ["Read", "Task", "Agent"], **more}
    return ClaudeAgentOptions(cwd=home, setting_sources=[], env=env, **given)


def run(
    home: Path, reply: Callable[[Asked], Reply], limits: str, model: str = MODEL, **options: Any
) -> Run:
    """Run an agent on a budget until it ends, and return what came of it."""
    scripts = {MODEL: reply, "claude-haiku-4-5-20251001": reply}
    with ScriptedEndpoint(scripts=scripts) as endpoint:
        agent_budget = ClaudeBudget(limits, upstream=endpoint.root_url, **options)
        found = Run()
        passed = agent_budget.proxy.app

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            body = b""

            async def watched() -> Any:
                nonlocal body
                message = await receive()
                body += message.get("body", b"")
                return message

            await passed(scope, watched, send)
            found.calls += bool(body)
            found.attempts += b"Read it." in body

        agent_budget.proxy.app = counted  # type: ignore[assignment]

        async def main() -> None:
            with agent_budget:
                given = agent_budget.options(options_at(home, model=model))
                async for message in query(prompt=prompt("Read it."), options=given):
                    found.messages.append(message)

        with budget("999 calls") as block:
            try:
                asyncio.run(asyncio.wait_for(main(), PATIENCE))
            except Exception as error:  # noqa: BLE001 - early versions raise nothing else
                found.error = error
        found.asked = [
            one.asked for one in endpoint.answers if "Read it." in str(one.asked.messages)
        ]
        found.spent = block.spent
        return found


def reader(asked: Asked) -> Reply:
    """Read a file again and again, for as long as there are tools."""
    if "Read it." not in str(asked.messages):
        return Reply("Ready.")  # it warms up
    return Reply(calls=(READ,)) if asked.tools else Reply("It has one line.")


@pytest.fixture(scope="module")
def ended(home: Path) -> Run:
    """A run that reads until its budget of calls ends it."""
    return run(
        home,
        reader,
        "7 calls + 1 tool:Read",
        warning_thresholds=(0.4,),
        tool_strip_threshold=0.4,
        tool_strip_disallow=("Bash",),
    )


@needs_program
@pytest.mark.feature("notice")
def test_the_model_is_told_near_a_limit(ended: Run) -> None:
    told = ["[Budget notice]" in str(asked.body["messages"]) for asked in ended.asked]
    assert told.count(True) == 1
    assert not told[-1]


@needs_program
@pytest.mark.feature("tool withdrawal")
def test_named_tools_are_withdrawn_near_a_limit(ended: Run) -> None:
    offered = [set(asked.tools) for asked in ended.asked if asked.tools]
    assert "Bash" in offered[0]
    assert offered[-1] == offered[0] - {"Bash"}


@needs_program
@pytest.mark.feature("reserved final call")
def test_the_last_call_has_no_tools_and_ends_the_run(ended: Run) -> None:
    assert ended.error is None
    assert (ended.result.is_error, ended.result.result) == (False, "It has one line.")
    assert ended.asked[-1].tools == {}
    assert "This is your last answer" in str(ended.asked[-1].messages[-1]["content"])
    assert ended.spent["calls"] == 7


@needs_program
@pytest.mark.feature("refusal")
def test_a_refused_tool_is_not_run_and_the_model_reads_why(ended: Run) -> None:
    text = str(ended.asked[-1].messages)
    assert "[Budget] The tool Read was not called: agent has 0 of 1 Read" in text
    assert ended.spent["tool_calls"] == 1


@needs_program
@pytest.mark.feature("stream")
def test_what_is_charged_is_what_the_program_reports(ended: Run) -> None:
    assert all(asked.stream for asked in ended.asked)
    assert ended.spent["nano_usd"] == round(ended.result.total_cost_usd * 1e9)


@pytest.fixture(scope="module")
def refused(home: Path) -> Run:
    """A run whose first call is refused."""
    return run(home, reader, "0 calls")


@needs_program
@pytest.mark.feature("refusal")
def test_a_refused_call_ends_the_run_and_says_why(refused: Run) -> None:
    assert refused.asked == []
    assert refused.result.is_error
    assert "agent has 0 of 0 calls" in refused.result.result
    assert refused.error is not None
    assert refused.spent["calls"] == 0


@needs_program
@pytest.mark.feature("retries")
@pytest.mark.skipif(ASKS_AGAIN, reason="this version's program asks again without a stream")
def test_a_refused_call_is_tried_once(refused: Run) -> None:
    assert refused.attempts == 1


@needs_program
@pytest.mark.feature("fallback")
def test_the_fallback_answers_where_a_model_has_no_price(home: Path) -> None:
    fallback = "claude-haiku-4-5-20251001"
    done = run(
        home, lambda asked: Reply(f"{asked.model}."), "$5", "unknown", fallback_model=fallback
    )
    assert [asked.model for asked in done.asked] == [fallback]
    assert done.result.result == fallback + "."


@needs_program
@pytest.mark.feature("child agents")
def test_agents_that_it_starts_draw_on_its_budget(home: Path) -> None:
    counted_to: list[str] = []

    def reply(asked: Asked) -> Reply:
        text = str(asked.messages)
        if "Count to two." in text and "Read it." not in text:
            counted_to.append("two")
            return Reply("One, two.")
        if "Read it." not in text or any(one["role"] == "tool" for one in asked.messages):
            return Reply("Done.")
        name = "Agent" if "Agent" in asked.tools else "Task"
        given = '"prompt": "Count to two.", "subagent_type": "general-purpose"'
        return Reply(calls=(ScriptedToolCall(name, f'{{"description": "Count", {given}}}'),))

    done = run(home, reply, "9 calls")
    assert done.result.result == "Done."
    assert counted_to == ["two"]
    assert done.spent["calls"] == done.calls > len(done.asked)
    assert done.spent["tool_calls"] == 1


@needs_program
@pytest.mark.feature("abort")
def test_a_run_that_is_cancelled_counts_its_call(home: Path) -> None:
    async def main(endpoint: ScriptedEndpoint) -> dict[str, int]:
        loop, asked, over = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def reply(request: Asked) -> Reply:
            if "Read it." in str(request.messages):
                loop.call_soon_threadsafe(asked.set)
                asyncio.run_coroutine_threadsafe(over.wait(), loop).result(PATIENCE)
            return Reply("Late.")

        endpoint.scripts[MODEL] = reply

        async def ask(options: ClaudeAgentOptions) -> None:
            async for _ in query(prompt=prompt("Read it."), options=options):
                pass

        with budget("99 calls") as block, ClaudeBudget(upstream=endpoint.root_url) as agent_budget:
            task = asyncio.create_task(ask(agent_budget.options(options_at(home))))
            await asyncio.wait_for(asked.wait(), PATIENCE)
            others = block.spent["calls"]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            over.set()
        assert block.left["calls"] < 99 - others
        return block.spent

    with ScriptedEndpoint() as endpoint:
        asyncio.run(main(endpoint))


def decide(hook: ToolHook, name: str) -> Any:
    return hook({"tool_name": name, "tool_input": {}}, "toolu_1", {"signal": None})


def is_denied(answer: Any) -> bool:
    return bool(answer) and answer["hookSpecificOutput"]["permissionDecision"] == "deny"


def a_hook(text: str, **options: Any) -> ToolHook:
    return ToolHook((BudgetAccount(parse_limits(text), **options),))


@pytest.mark.feature("parallel tools")
def test_tools_side_by_side_do_not_exceed_the_budget() -> None:
    hook = a_hook("3 tool:Read")

    async def main() -> list[Any]:
        return await asyncio.gather(*(decide(hook, "Read") for _ in range(5)))

    assert [is_denied(answer) for answer in asyncio.run(main())].count(True) == 2


@pytest.mark.feature("deadline")
def test_nothing_is_allowed_after_the_deadline(endpoint: ScriptedEndpoint) -> None:
    with budget("0 s"):
        answer = asyncio.run(decide(a_hook("9 tool:Read"), "Read"))
        assert "deadline has passed" in answer["hookSpecificOutput"]["permissionDecisionReason"]
        with ClaudeBudget("9 calls", upstream=endpoint.root_url) as agent_budget:
            response = ask_model(agent_budget.environment[URL])
    assert response.headers["x-should-retry"] == "false"
    assert endpoint.requests == []


@pytest.mark.feature("wait")
def test_calls_and_tools_wait_for_what_others_hold(endpoint: ScriptedEndpoint) -> None:
    ledger = open_ledger("memory:")
    given: Any = {"ledger": ledger, "account": "acme", "wait": 60}

    async def main() -> None:
        with ClaudeBudget("1 calls + 1 tool:Read", upstream=endpoint.root_url, **given) as one:
            assert one.hook.matcher.timeout == 120
            for axis in ("calls", "Read"):
                held = ledger.reserve("acme", {axis: 1})
                url = one.environment[URL]
                waiting = asyncio.create_task(
                    asyncio.to_thread(ask_model, url) if axis == "calls" else decide(one.hook, axis)
                )
                while room_of(ledger).waiting != 1:  # noqa: ASYNC110 - the queue has no event
                    await asyncio.sleep(0.001)
                ledger.release(held)
                answer = await waiting
                assert not is_denied(answer) if axis == "Read" else answer.status_code == 200

    asyncio.run(main())


def ask_model(url: str) -> httpx.Response:
    headers = {"x-api-key": "none", "anthropic-version": "2023-06-01"}
    return httpx.post(url + "/v1/messages", json=ASKED, headers=headers, timeout=PATIENCE)


def test_a_hook_that_fails_denies() -> None:
    ledger = open_ledger("memory:")  # the account has no limits
    assert is_denied(asyncio.run(decide(ToolHook((BudgetAccount((), ledger, "acme"),)), "Read")))


def test_the_options_get_the_proxy_and_keep_what_they_have(endpoint: ScriptedEndpoint) -> None:
    async def mine(data: Any, tool_use_id: Any, context: Any) -> Any:
        return {}

    matcher = HookMatcher(matcher="Bash", hooks=[mine])
    plain = ClaudeAgentOptions(env={"HOME": "here"}, max_turns=3, hooks={"PreToolUse": [matcher]})
    with ClaudeBudget("$1", upstream=endpoint.root_url) as agent_budget:
        options = agent_budget.options(plain)
        assert (options.env["HOME"], options.max_turns) == ("here", 3)
        assert options.env[URL].startswith("http://127.0.0.1:")
        assert "127.0.0.1" in options.env["NO_PROXY"]
        assert options.hooks is not None
        assert options.hooks["PreToolUse"][0] is matcher
        assert options.hooks["PreToolUse"][1].hooks == [agent_budget.hook]
    assert (plain.env, plain.hooks) == ({"HOME": "here"}, {"PreToolUse": [matcher]})


def test_budgeted_options_have_a_proxy_while_they_are_used(endpoint: ScriptedEndpoint) -> None:
    plain = ClaudeAgentOptions(env={URL: endpoint.root_url})
    options = budgeted(plain, "1 call")
    url = options.env[URL]
    assert url != endpoint.root_url
    assert [ask_model(url).status_code for _ in range(2)] == [200, 402]
    del options
    gc.collect()
    with pytest.raises(httpx.ConnectError):
        ask_model(url)


def test_a_budget_is_entered_before_its_options_are_used() -> None:
    with pytest.raises(RuntimeError, match="enter the ClaudeBudget"):
        ClaudeBudget("$1").options()


def test_what_are_no_options_is_refused() -> None:
    with pytest.raises(ValueError, match="ClaudeAgentOptions"):
        budgeted(HookMatcher(), "1 call")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    monkeypatch.delitem(sys.modules, "budget_cpython.run.claude_agent", raising=False)
    with pytest.raises(ImportError, match=r"microbudget\[claude-agent\]"):
        import_module("budget_cpython.run.claude_agent")


@needs_program
def test_the_example_runs() -> None:
    printed = run_example("with_claude_agent.py")
    assert "answer: It has one line." in printed
    assert "of 9 calls" in printed
