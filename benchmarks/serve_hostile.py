"""How long good clients of the service wait beside hostile ones, and that all is counted once.

Eight good clients, in turns alone and beside the hostile ones of `tests/serve/attacks.py`, which
run on the same machine: their own work is a part of what is measured.
"""

import sys

from benchmarks.figures import Figure
from tests.serve.hostile import ENGINES, p99, run

MOST_P99_TIMES = 2.0
_NOTE = (
    "The hostile clients, the good ones and the service share the machine's cores, so the "
    "processor time of the hostile clients is a part of the figure. Requests a second are for a "
    "proxy to limit."
)
_SECONDS, _QUICK_SECONDS = 300, 8  # of each engine


def measure(quick: bool = False) -> list[Figure]:
    """Return the 99th percentiles of good requests, and the promises that were broken."""
    if sys.platform != "linux":
        raise RuntimeError("hostile clients have other addresses of this machine, as Linux has")
    figures: list[Figure] = []
    for engine in ENGINES:
        found = run(engine, _QUICK_SECONDS if quick else _SECONDS)
        place = f"hostile clients, {engine}"
        figures += [
            Figure(f"{place}: attacks", sum(found.tries.values())),
            Figure(f"{place}: good requests beside them", len(found.beside)),
            Figure(f"{place}: broken promises", len(found.wrong), "", 0),
            Figure(f"{place}: 99th percentile, alone", p99(found.alone) * 1e3, "ms"),
            Figure(
                f"{place}: 99th percentile, times", found.times_p99(), "", MOST_P99_TIMES, _NOTE
            ),
        ]
    return figures
