"""Run a turn of the board's agent against a scripted model, and print the heap that it takes.

Nothing is asked over the network, and no budget is read or written: the store keeps nothing.
"""
# mypy: ignore-errors

import gc
import json

import micropython
import settings

gc.collect()
before = gc.mem_alloc()
gc.threshold(getattr(settings, "GC_THRESHOLD", 4096))
stack_use = getattr(micropython, "stack_use", int)


class _Scripted:
    """A model that calls two tools in turn, twice, and then answers."""

    calls = heap = stack = 0

    def get_default_model(self):
        return "scripted"

    def sample(self):
        gc.collect()
        self.heap = max(self.heap, gc.mem_alloc())
        self.stack = max(self.stack, stack_use())

    async def chat(self, messages, tools=None, model=None, **options):
        from budget_core.chat.completion import parse_answer

        message = {"role": "assistant", "content": "All is as it was. " * 10}
        if self.calls < 4 and tools:
            name = ("list_files", "read_chip")[self.calls % 2]
            call = {"name": name, "arguments": "{}"}
            message["tool_calls"] = [
                {"id": f"call_{self.calls}", "type": "function", "function": call}
            ]
        self.calls += 1
        usage = {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}
        body = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
        self.sample()
        return parse_answer(body)


def _wide(settings):
    """Return the day's tracker as the program makes it, with a whole day left that is not kept."""
    import budget_core.board.make_agent as make_agent

    store = make_agent.open_store(settings)
    store.load = store.provision = store.clear = lambda: None
    store.save = lambda state: None
    make_agent.open_store = lambda settings: store
    settings.DAILY_BUDGET = 1_000_000
    return make_agent.make_daily(settings)


def _look():
    import budget_core.board.device
    import budget_core.board.line_input
    from budget_core.agent.tool import Tool
    from budget_core.board.console import Console
    from budget_core.board.make_agent import make_client, make_fleet, make_operative

    optional = budget_core.board.device.optional
    optional("budget_core.board.tools")  # as the program has it
    budget_core.board.device.rejoin = None
    model, client, fleet = _Scripted(), None, None
    tools = [
        Tool("list_files", "List the notes on this board, with sizes.", lambda: "none"),
        Tool("read_chip", "Read the chip's uptime and free memory.", lambda: "up for 9 s"),
    ]
    try:
        daily = _wide(settings)
        try:
            client = make_client(settings, optional("secret"))
            fleet = make_fleet(settings, optional("secret"), daily)
        except ValueError:
            pass  # the check of the endpoint says why
        operative = make_operative(settings, model, daily, tools)
    except AttributeError as error:
        return {"absent": "its settings are not those of an agent: " + str(error)}
    said = []
    console = Console(settings, operative, daily, None, said.append)
    gc.collect()
    rest = gc.mem_alloc()
    console.turn("What is there to do?")
    model.sample()
    return {
        "before": before,
        "rest": rest,
        "peak": model.heap,
        "stack": model.stack,
        "calls": model.calls,
        "said": said[-2:],
        "tls": getattr(client, "base_url", "").startswith("https"),
        "fleet": fleet is not None,
    }
