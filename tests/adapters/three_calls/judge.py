"""Frameworks as agent-budget-semantics 0.5.0 drives them, at the scripted endpoint.

Nothing in them is ours, so that `instrument()` counts their calls. They change no scenario but by
what the model and its provider do, and they report errors as texts.
"""

import asyncio
from importlib import import_module
from typing import Any

from budget_cpython import instrument, uninstrument
from tests.adapters.three_calls.cases import UNLIMITED, WORDS, Framework, Job

TOOLS = {"name": "S2", "tool_definitions": [{"name": "get_weather"}]}


class Judged(Framework):
    """A framework in the hands of one of the judge's runners."""

    ours = "`instrument()`"
    lacks = dict.fromkeys(
        ("S3", "S7", "S8", "S9", "S10", "S12"), "the judge's runner has no setting for it"
    )
    models = ("mock-budget-llm", "gpt-4o")

    def __init__(
        self, runner: str, title: str, package: str, limit: str, ended: tuple[int, str]
    ) -> None:
        self.runner, self.title, self.package = runner, title, package
        self.limit, self.ended = limit, ended

    def run(self, job: Job) -> object:
        runner = import_module(f"runners.runner_{self.runner}")
        job.wanted = ("get_weather",)
        most = job.limit or UNLIMITED
        if not job.limit:
            instrument()
        try:
            result: Any = asyncio.run(runner.run(TOOLS, job.endpoint.root_url, most))
        finally:
            uninstrument()
        job.tools = result.actual_tool_calls
        if result.error:
            raise type(result.error.partition(":")[0], (Exception,), {})
        is_done = job.endpoint.answers[-1].reply.content == WORDS
        return WORDS if is_done and job.attempts < UNLIMITED else result.raw_output
