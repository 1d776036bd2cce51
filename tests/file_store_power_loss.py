"""Cut the power of a chip at every block operation, once and twice, and look at what is left.

Runs tests_micro/power_loss.py on MicroPython's littlefs and FAT code, with the flash in memory: for
each file system and programme or sector size, each fault of the first cut and of the second, each
write-ahead allowance, each length of a torn write, and for chips brand-new and used before. Prints
the cuts of each, the highest count above what was spent, and the brand-new chips whose FAT a cut
destroyed while the budget was being set up: those deny. The exit code is 1 as soon as a cut breaks
the promise.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from tests.paths import ROOT

KINDS = ("littlefs 32", "littlefs 256", "FAT 512", "FAT 4096")
FAULTS = ("lost", "torn", "broken", "erased")
LIVES = ("used", "new")
TEARS = (32, 64, 96)
COUNTED = ("single", "double", "over", "denied")


def campaigns(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each campaign that was asked for."""
    for kind, life, allowance in product(options.kind, options.life, options.write_ahead):
        for faults in product(options.fault, repeat=2):
            if "broken" in faults and kind.startswith("littlefs"):
                continue  # the same as torn: what littlefs programmes was erased before
            for tear in options.tear if {"torn", "broken"} & set(faults) else options.tear[:1]:
                yield {
                    "kind": kind,
                    "life": life,
                    "allowance": allowance,
                    "faults": faults,
                    "tear": tear,
                    "strides": (options.stride, options.stride),
                }


def run(micropython: str, campaign: dict[str, Any]) -> dict[str, Any]:
    """Run one campaign; return what it counted, or what was `broken`."""
    done = subprocess.run(
        [micropython, "tests_micro/power_loss.py", json.dumps(campaign)],
        cwd=ROOT,
        env={**os.environ, "MICROPYPATH": ".frozen"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"broken": f"MicroPython failed: {(done.stdout + done.stderr).strip()}"}
    return said


def run_all(micropython: str, options: argparse.Namespace) -> int:
    """Run the campaigns, a line each, add up what they counted, and return the exit code."""
    total = dict.fromkeys(COUNTED, 0)
    wanted = list(campaigns(options))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = [(campaign, pool.submit(run, micropython, campaign)) for campaign in wanted]
        for campaign, waiting in runs:
            found = waiting.result()
            if "broken" in found:
                print(f"FAILED: {json.dumps(campaign)}: {found['broken']}", flush=True)
                pool.shutdown(cancel_futures=True)
                return 1
            print(f"{_name(campaign)}: {_counts(found)}", flush=True)
            for what in ("single", "double", "denied"):
                total[what] += found[what]
            total["over"] = max(total["over"], found["over"])
    print(f"{len(wanted)} campaigns: {_counts(total)}, 0 broken")
    return 0


def _name(campaign: dict[str, Any]) -> str:
    return (
        f"{campaign['kind']}, {campaign['life']}, K = {campaign['allowance']}, "
        f"{' then '.join(campaign['faults'])} ({campaign['tear']} bytes)"
    )


def _counts(found: dict[str, int]) -> str:
    return (
        f"{found['single']} single cuts, {found['double']} double, over by {found['over']} tokens "
        f"at most, {found['denied']} destroyed when new"
    )


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several: dict[str, Any] = {"nargs": "+", "metavar": "ONE"}
    parser.add_argument("--kind", choices=KINDS, default=KINDS, help="file systems", **several)
    parser.add_argument("--fault", choices=FAULTS, default=FAULTS, help="kinds of cut", **several)
    parser.add_argument("--life", choices=LIVES, default=LIVES, help="new or used", **several)
    parser.add_argument(
        "--write-ahead", type=int, default=(0, 100), help="K, in tokens (default: 0 100)", **several
    )
    parser.add_argument(
        "--tear", type=int, default=TEARS, help="bytes of a torn write (default: all)", **several
    )
    parser.add_argument(
        "--stride", type=int, default=1, help="cut at every so manyth operation (default: 1)"
    )
    options = parser.parse_args()
    micropython = os.environ.get("MICROPYTHON")
    if not micropython:
        parser.error("set MICROPYTHON to the path of a MicroPython")
    return run_all(micropython, options)


if __name__ == "__main__":
    sys.exit(main())
