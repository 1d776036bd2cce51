"""Say in words when something is, in UTC."""

from budget_core.wall_clock import DAY

LAST_DATE = 253_402_300_799  # second of the year 9999


def stamp(at: int) -> str:
    """Return a Unix time as a date, an hour and a minute, as in `2026-03-02 23:00 UTC`."""
    days, second = divmod(min(at, LAST_DATE), DAY)  # not gmtime, which ends in 2038 on some ports
    era, day = divmod(days + 719_468, 146_097)  # of 400 years, from the first of March
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += 400 * era + month // 10
    month = (month + 2) % 12 + 1
    return f"{year}-{month:02}-{day:02} {second // 3600:02}:{second // 60 % 60:02} UTC"


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
