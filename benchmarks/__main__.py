"""Run the benchmarks: `python -m benchmarks`."""

import argparse
import sys

from benchmarks import (
    adapters,
    answer_caps,
    chip,
    code,
    deadlines,
    executor,
    flash,
    heap,
    hot_root,
    imports,
    ledger_lease,
    ledger_memory,
    ledger_postgres,
    ledger_redis,
    ledger_sqlite,
    overhead,
    page,
    page_views,
    peers,
    proxy,
    proxy_bodies,
    serve_hostile,
    serve_rate,
    sizes,
    start,
    telemetry,
)
from benchmarks.figures import Figure, table

GROUPS = {
    "code": code.measure,
    "overhead": overhead.measure,
    "deadlines": deadlines.measure,
    "executor": executor.measure,
    "heap": heap.measure,
    "chip": chip.measure,
    "flash": flash.measure,
    "imports": imports.measure,
    "start": start.measure,
    "adapters": adapters.measure,
    "ledger": ledger_memory.measure,
    "sqlite": ledger_sqlite.measure,
    "leases": ledger_lease.measure,
    "redis": ledger_redis.measure,
    "postgres": ledger_postgres.measure,
    "roots": hot_root.measure,
    "proxy": proxy.measure,
    "bodies": proxy_bodies.measure,
    "serve": serve_rate.measure,
    "hostile": serve_hostile.measure,
    "caps": answer_caps.measure,
    "peers": peers.measure,
    "page_views": page_views.measure,
    "sizes": sizes.measure,
    "telemetry": telemetry.measure,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure the groups asked for, print and write their figures; return the exit code."""
    options = _parser().parse_args(arguments)
    measured: dict[str, list[Figure]] = {}
    whole = True
    for name in options.groups or GROUPS:
        try:
            measured[name] = GROUPS[name](options.quick)
        except RuntimeError as error:
            print(f"{name}: not measured: {error}", file=sys.stderr)
            whole = False
    figures = [figure for group in measured.values() for figure in group]
    print(table(figures))
    if not options.quick:
        page.write(measured, GROUPS, page.PAGE)
    met = whole and not any(figure.missed for figure in figures)
    return 1 if options.strict and not met else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure ours beside exoclaw-turn-budget, or beside the bare engine, and show "
        "each figure with its target. Full measurements are written to docs/figures.md. "
        "MICROPYTHON names the MicroPython to measure the heap on.",
    )
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        type=_group,
        help=f"what to measure: {', '.join(GROUPS)} (default: all)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rounds, rougher figures; docs/figures.md is left alone",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a target is missed or not measured"
    )
    return parser


def _group(name: str) -> str:
    if name not in GROUPS:
        raise argparse.ArgumentTypeError(f"there is no group {name!r}")
    return name


if __name__ == "__main__":
    sys.exit(main())
