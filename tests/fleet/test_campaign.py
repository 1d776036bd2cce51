"""A small fleet, over the same outages as the campaign's thousand devices."""

import xml.etree.ElementTree as ET

from tests.fleet.campaign import HOURS, Campaign, parser
from tests.fleet.plot import draw

DEVICES = 20
BLOCK = 1000


def test_a_small_fleet_uses_no_more_than_its_limit_and_comes_back() -> None:
    line = f"--devices {DEVICES} --micropython 2 --processes 1 --step 30 --block {BLOCK}"
    lines: list[str] = []
    outcome = Campaign(parser().parse_args(line.split()), lines.append).run()
    totals = outcome.totals
    lost = totals["cuts"] + totals["resets"]  # each with at most a lease
    outcome.check(lost * BLOCK / outcome.limit)
    assert totals["unreachable"] > 0
    assert totals["refused"] > 0
    assert outcome.used[1] > outcome.limit * 9 // 10, "the limit was reached"
    assert len(lines) == HOURS
    picture = ET.fromstring(draw(outcome))  # noqa: S314 - our own
    assert picture.tag.endswith("svg")
