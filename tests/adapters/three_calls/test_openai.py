"""openai: a client has no agents, so the loop is that of its documentation."""

import json
from typing import Any

import pytest

pytest.importorskip("openai")

from openai import OpenAI

from tests.adapters.three_calls.cases import (
    MODEL,
    NO_AGENTS,
    PROMPT,
    Framework,
    Job,
    ThreeCalls,
)

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


class OpenAIClient(Framework):
    """A loop of one's own round a client."""

    title, package = "openai, a loop of one's own", "openai"
    ours = "`budgeted(OpenAI())`"
    lacks = {"S3": NO_AGENTS, "S10": NO_AGENTS}

    def run(self, job: Job) -> object:
        with OpenAI(base_url=job.endpoint.base_url, api_key="k") as client:
            return self.loop(job, job.budgeted(client).chat.completions.create)

    def loop(self, job: Job, create: Any) -> object:
        """Call the model and its tools until it answers in words."""
        messages: list[Any] = [
            {"role": "system", "content": job.scenario.system},
            {"role": "user", "content": PROMPT},
        ]
        while True:
            options = {"model": MODEL, "messages": messages, "tools": [LOOK]}
            message = self.ask(create, options, job.scenario.streams)
            if not message.get("tool_calls"):
                return message["content"]
            messages.append(message)
            for call in message["tool_calls"]:
                found = job.look(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})

    def ask(self, create: Any, options: Any, streams: bool) -> Any:
        """Make a call, and return the message of its answer."""
        if not streams:
            return create(**options).choices[0].message.model_dump(exclude_none=True)
        text = ""
        calls: dict[int, dict[str, Any]] = {}
        for chunk in create(**options, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"name": "", "arguments": ""})
                    call["id"] = part.id or call.get("id")
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
        made = [
            {"id": call.pop("id"), "type": "function", "function": call} for call in calls.values()
        ]
        answer = {"role": "assistant", "content": text}
        return {**answer, "tool_calls": made} if made else answer


class TestOpenAIClient(ThreeCalls):
    framework = OpenAIClient()
