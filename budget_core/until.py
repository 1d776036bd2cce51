"""Say in words when something is, in UTC."""

import time

from budget_core.wall_clock import DAY, epoch_offset

_LAST = 253_402_300_799  # second of the year 9999


def stamp(at: int) -> str:
    """Return a Unix time as a date, an hour and a minute, as in `2026-03-02 23:00 UTC`."""
    parts = time.gmtime(min(at, _LAST) - epoch_offset(time.gmtime))
    return f"{parts[0]}-{parts[1]:02}-{parts[2]:02} {parts[3]:02}:{parts[4]:02} UTC"


def until(at: int, now: int = 0) -> str:
    """Return a Unix time and how long that is from `now`, as in `23:00 UTC, in 3 h 12 min`.

    A day or more ahead the date is said too. If `now` is 0, or later, the date is said alone.
    """
    text, left = stamp(at), at - now
    if not now or left <= 0:
        return text
    minutes = -(-left // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{days} d"] if days else []
    if hours:
        parts.append(f"{hours} h")
    if minutes and not days:
        parts.append(f"{minutes} min")
    return f"{text if left >= DAY else text[11:]}, in {' '.join(parts)}"
