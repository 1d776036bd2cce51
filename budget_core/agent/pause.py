"""Take the time of a declared pause from a run's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Pause:
    """What `Envelope.paused` returns; pauses may overlap."""

    def __init__(self, envelope: "Any", reason: str) -> None:
        self._envelope = envelope
        self._reason = reason

    def __enter__(self) -> None:
        envelope = self._envelope
        self._since = envelope.clock.read()
        with envelope.lock:
            if not envelope._pause_depth:
                envelope._paused_since = self._since
            envelope._pause_depth += 1
        envelope.changed()

    def __exit__(self, *error: object) -> None:
        envelope = self._envelope
        with envelope.lock:
            now = envelope.clock.read()
            if envelope._pause_depth == 1:  # counted before it ends: readers take no lock
                envelope._paused += max(0, now - envelope._paused_since)
            envelope._pause_depth -= 1
            ms = max(0, now - self._since) // envelope.clock.per_ms
            envelope.pauses.append({"reason": self._reason, "ms": ms})
        envelope.changed()
