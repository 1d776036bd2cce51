"""A provider that answers by heart, and answers to give it."""

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


class Script:
    """A provider that gives its answers in order, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[dict[str, Any]] = []

    def get_default_model(self) -> str:
        """Return the only model."""
        return "script"

    async def chat(self, **request: Any) -> Any:
        """Return or raise the next answer, or await what it gives."""
        self.sent.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return await answer() if callable(answer) else answer
