"""The core's answers as dataclasses: executors that keep a journal ask for `dataclasses.asdict`."""

from dataclasses import dataclass

from budget_core.provider import ChatResponse, ToolCall

for _answer in (ChatResponse, ToolCall):  # themselves, so that those that the core makes are too
    for _name in ("__dataclass_fields__", "cut_short_by", "model"):  # journals know neither
        _answer.__annotations__.pop(_name, None)
    dataclass(init=False)(_answer)
