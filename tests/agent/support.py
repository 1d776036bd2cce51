"""Answers for a scripted provider, of as many tokens as a test wants."""

from typing import Any

from budget_cpython import ChatResponse, ToolCall

QUESTION = "What now?"


def says(text: str | None, tokens: int = 100, **more: Any) -> ChatResponse:
    """Return an answer of so many tokens, nine in ten of them the prompt's."""
    return ChatResponse(text, usage=usage(tokens), **more)


def calls(*named: tuple[str, dict[str, Any]], tokens: int = 100) -> ChatResponse:
    """Return an answer that calls tools by name, with their arguments."""
    asked = [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(named)]
    return ChatResponse(None, asked, "tool_calls", usage(tokens))


def usage(tokens: int) -> dict[str, int]:
    """Return a provider's report of so many tokens."""
    completion = tokens // 10
    return {
        "prompt_tokens": tokens - completion,
        "completion_tokens": completion,
        "total_tokens": tokens,
    }
