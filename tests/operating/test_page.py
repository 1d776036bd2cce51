"""Each step of docs/operating.md is tried."""

import re
from pathlib import Path

from tests.operating.support import STEPS


def test_each_block_of_commands_is_followed_by_a_test() -> None:
    tried = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        calls = re.findall(r'\.follow\(\s*"([^"]+)"(?:,\s*(\d+))?', file.read_text("utf-8"))
        tried |= {(heading, int(number or 0)) for heading, number in calls}
    there = {(heading, number) for heading in STEPS for number in range(len(STEPS[heading]))}
    assert tried == there
    assert len(there) > 15
