"""Windows of named time zones, and weeks that begin on any day."""

import functools
import re
import zoneinfo
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn

from budget_core.errors import refuse
from budget_core.ledger import window as core
from budget_core.ledger.window import Window
from budget_core.wall_clock import DAY

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
GRAMMAR = (
    "'run', 'rolling SECONDS/BUCKETS', 'hour', 'day', 'week' or 'month'; each of the last three "
    "with the hour it begins at, as in 'day@5'; a week with its first day, as in 'week@5 sunday'; "
    "each of the last four with a time zone at the end, as in 'week@5 sunday Europe/Berlin'"
)
_PARTS = re.compile(
    r"(?P<unit>hour|(day|week|month)(@[0-9]+)?)"
    rf"( (?P<weekday>{'|'.join(WEEKDAYS)}))?"
    r"( (?P<zone>[A-Za-z][A-Za-z0-9_+/-]{0,63}))?"
)
_CYCLE = 146_097 * DAY  # 400 years, after which calendar and weekdays repeat
_LAST = 200_000_000_000  # the year 8307; Python's calendar ends with 9999
_EPOCH = datetime(1970, 1, 1)

Calendar = Callable[[int], tuple[int, int]]  # seconds, by a clock that is never changed


def parse_zoned(name: Any) -> Window:
    """Return the window of that name; `parse_window` in `windows` says what names there are."""
    parts = _PARTS.fullmatch(name) if isinstance(name, str) else None
    if parts is None:
        return _plain(name, name)
    plain = _plain(parts["unit"], name)
    first = WEEKDAYS.index(parts["weekday"] or WEEKDAYS[0])
    if parts["weekday"] and not plain.name.startswith("week"):
        _refuse(name)
    words = [plain.name] + ([WEEKDAYS[first]] if first else [])
    calendar = functools.partial(_shifted, plain, first * DAY)
    if parts["zone"] in (None, "UTC"):
        return Window(" ".join(words), calendar) if first else plain
    words.append(parts["zone"])
    return Window(" ".join(words), functools.partial(_zoned, calendar, _zone(parts["zone"])))


def _plain(unit: Any, name: Any) -> Window:
    try:
        return core.parse_window(unit)
    except ValueError:
        _refuse(name)


def _refuse(name: Any) -> NoReturn:
    refuse("window", GRAMMAR, name)


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # not there, a folder, another kind of file
        text = f"window must name a time zone, such as Europe/Berlin, not {name!r}"
        if not zoneinfo.available_timezones():
            text = f"no time zone is known here, nor {name!r}: pip install tzdata"
        raise ValueError(text) from error


def _shifted(plain: Window, shift: int, now: int) -> tuple[int, int]:
    """Return the bounds of a window of the core that begins so many seconds later.

    Asked 400 years ahead: the core has no time before 1970.
    """
    _, start, end = plain.bounds((now - shift + _CYCLE) * 1000)
    return start // 1000 + shift - _CYCLE, end // 1000 + shift - _CYCLE


def _zoned(calendar: Calendar, zone: zoneinfo.ZoneInfo, now: int) -> tuple[int, int]:
    """Return the bounds of a window by the clock of a zone."""
    ahead = max(0, (now - _LAST) // _CYCLE + 1) * _CYCLE
    now -= ahead
    start, end = calendar(_local(zone, now))
    ends = _instant(zone, end)
    while ends <= now:  # a clock that was set back over a reset
        start, end = calendar(end)
        ends = _instant(zone, end)
    return _instant(zone, start) + ahead, ends + ahead


def _local(zone: zoneinfo.ZoneInfo, now: int) -> int:
    """Return what a zone's clock shows, in seconds."""
    return now + _seconds(datetime.fromtimestamp(now, zone).utcoffset())


def _instant(zone: zoneinfo.ZoneInfo, local: int) -> int:
    """Return the first moment at which a zone's clock shows that, or more."""
    shown = (_EPOCH + timedelta(seconds=local)).replace(tzinfo=zone)
    late = local - _seconds(shown.utcoffset())
    if _local(zone, late) == local:
        return late
    early = local - _seconds(shown.replace(fold=1).utcoffset())
    while late - early > 1:  # the clock jumps in between
        middle = (early + late) // 2
        if _local(zone, middle) < local:
            early = middle
        else:
            late = middle
    return late


def _seconds(offset: timedelta | None) -> int:
    return int((offset or timedelta()).total_seconds())
