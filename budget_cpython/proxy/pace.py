"""How fast models answer, so that an answer can end by its limit, not by its deadline."""

import time

MOST_MODELS = 1000
_LONG = 200  # tokens: of a shorter answer, most of the time may be that of the prompt
_SINKS = 16  # a part of the fastest pace, by which it sinks with each slower answer


class Pace:
    """The tokens a second of the fastest recent answers, by model.

    The fastest one counts, as others had to wait for a queue, a long prompt or a slow client.
    """

    def __init__(self) -> None:
        self._paces: dict[str, float] = {}

    def begin(self) -> float:
        """Return the instant at which a call is sent."""
        return time.monotonic()

    def learn(self, model: str, tokens: int, begun: float) -> None:
        """Note an answer of so many tokens, which is there now; short ones say little."""
        if tokens < _LONG:
            return
        found = tokens / max(0.001, time.monotonic() - begun)
        if model not in self._paces and len(self._paces) >= MOST_MODELS:
            self._paces.clear()
        known = self._paces.get(model, 0)
        self._paces[model] = max(found, known - known / _SINKS)

    def tokens_in(self, model: str, seconds: float) -> int | None:
        """Return how many tokens come in a time, at least one; `None` if that is not known."""
        pace = self._paces.get(model)
        return None if pace is None else max(1, int(pace * seconds))
