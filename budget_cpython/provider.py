"""The core's answers as dataclasses: executors that keep a journal ask for `dataclasses.asdict`."""

from dataclasses import dataclass

from budget_core.provider import ChatResponse, ToolCall

for _answer in (ChatResponse, ToolCall):  # themselves, so that those that the core makes are too
    del _answer.__annotations__["__dataclass_fields__"]
    dataclass(init=False)(_answer)
