"""The names of windows as a pattern for descriptions of the service."""

import re
from zoneinfo import available_timezones

from budget_core.day import HOUR
from budget_core.ledger.checks import MOST_BUCKETS
from budget_core.wall_clock import DAY
from budget_cpython.ledger.zones import WEEKDAYS

_MINUTE = 60
_REGIONS = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific"
_ZONE = re.compile(rf"({_REGIONS})/[A-Za-z_/-]+")
_SPANS = (
    *(minutes * _MINUTE for minutes in (1, 5, 15)),
    *(hours * HOUR for hours in (1, 6, 12, 24, 168, 720)),
)


def windows_pattern() -> str:
    """Return a pattern of windows' names, with the places whose time zones this machine knows.

    Of rolling windows it has those in one bucket, of whole hundreds of seconds, and of common
    spans: that others need a multiple of their buckets no pattern says.
    """
    hour = f"(@({'|'.join(map(str, range(DAY // HOUR)))}))?"
    calendar = f"hour|(day|month){hour}|week{hour}( ({'|'.join(WEEKDAYS)}))?"
    zones = "|".join(["UTC", *sorted(filter(_ZONE.fullmatch, available_timezones()))])
    zone = f"( ({zones}))?"
    rolling = "|".join(["[1-9][0-9]{0,6}/1", "[1-9][0-9]{0,4}00/(2|4|5|10|20|25|50)", *_of_spans()])
    return f"^(run|({calendar}){zone}|rolling ({rolling}))$"


def _of_spans() -> list[str]:
    counts = range(1, MOST_BUCKETS + 1)
    divisors = {span: [str(count) for count in counts if span % count == 0] for span in _SPANS}
    return [f"{span}/({'|'.join(known)})" for span, known in divisors.items()]
