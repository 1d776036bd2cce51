"""Make many requests through the proxy and print its memory: `python -m tests.proxy.memory`."""

import argparse
import asyncio
import sys

from benchmarks.proxy import CLIENTS, Side, both, load

WARM = 2_000  # requests until pools, caches and tables have their size
STEPS = 10
MOST_KB = 4_096  # that it may grow by afterwards


def measure(requests: int) -> list[int]:
    """Return the proxy's resident memory in KB when it is warm, and after each tenth."""
    with both() as sides:
        side = sides[0]
        return [_after(side, WARM), *(_after(side, requests // STEPS) for _ in range(STEPS))]


def _after(side: Side, requests: int) -> int:
    asyncio.run(load(side, CLIENTS, requests))
    print(side.memory_kb(), "KB", flush=True)
    return side.memory_kb()


def main() -> int:
    """Return 1 if the memory grew by more than `MOST_KB`."""
    parser = argparse.ArgumentParser(prog="python -m tests.proxy.memory", description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000, metavar="N")
    found = measure(parser.parse_args().requests)
    print(f"grew by {found[-1] - found[0]} KB, at most {MOST_KB} KB")
    return int(found[-1] - found[0] > MOST_KB)


if __name__ == "__main__":
    sys.exit(main())
