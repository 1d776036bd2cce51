"""What a call used, with what a prompt cache would have held of it."""

import itertools
import threading
from collections import deque
from typing import Final

from scripted_model.calls import CHARS_PER_TOKEN, Asked, Reply, ScriptedUsage, count_tokens

CACHE_STEP: Final = 128
MAX_PROMPTS: Final = 16


class PromptCache:
    """Remember the last prompts; a prompt's prefix that one of them shares is cached."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompts: deque[tuple[str, list[str]]] = deque(maxlen=MAX_PROMPTS)

    def use(self, asked: Asked, reply: Reply) -> ScriptedUsage:
        """Return the usage of a call, in whole cache steps, and remember its prompt."""
        prefix = asked.prompt[: asked.cacheable]
        with self._lock:
            seen = [_shared(old, prefix) for name, old in self._prompts if name == asked.model]
            if prefix:
                self._prompts.append((asked.model, prefix))
        if reply.usage is not None:
            return reply.usage
        cached = _steps(max(seen, default=0))
        return ScriptedUsage(
            count_tokens(_chars(asked.prompt)),
            count_tokens(reply.chars) * asked.answers,
            cached,
            _steps(_chars(prefix)) - cached if asked.counts_writes else 0,
            count_tokens(len(reply.thinking)) * asked.answers if reply.thinking else 0,
        )


def _shared(before: list[str], prompt: list[str]) -> int:
    """Return the length in characters of the prefix that two prompts share."""
    pairs = zip(before, prompt, strict=False)
    return _chars([new for _, new in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _chars(pieces: list[str]) -> int:
    return sum(map(len, pieces))


def _steps(chars: int) -> int:
    return chars // CHARS_PER_TOKEN // CACHE_STEP * CACHE_STEP
