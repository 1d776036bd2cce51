"""Note what devices report with their requests: in the ledger, where every engine keeps it.

The header `Microbudget-Device` has the tokens that a device's own day has used, its cap and its
end. The report of the account `boards/pico` is the account `_devices/boards/pico`, whose limits are
the numbers of the report: they are stored in one step, and the newest replaces the one before.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from budget_core.errors import BudgetError, refuse
from budget_core.ledger.checks import check_amount
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.limit_changes import DEVICES
from budget_cpython.web.served_ledger import ServedLedger

HEADER = "microbudget-device"
ROOT = DEVICES
SEEN = "seen_at"
FIELDS = ("spent", "cap", "resets_at")
AXES = (SEEN, *FIELDS)  # of the accounts of reports
EVERY_S = 60  # the same report is noted again after so many seconds
MOST = 10_000  # devices of a service
log = logging.getLogger("microbudget.serve")


class DeviceReports:
    """The reports of all devices; `clock` returns Unix seconds."""

    def __init__(self, ledger: ServedLedger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._noted: dict[str, tuple[int, dict[str, int | None]]] = {}
        self._known: set[str] = set()
        self._looked: int | None = None  # when those that are known were listed

    async def note(self, path: str, report: dict[str, int | None]) -> None:
        """Note a report for an account; where the engine fails, only a line is logged."""
        now = int(self._clock())
        at, before = self._noted.get(path, (0, {}))
        if report == before and now - at < EVERY_S:
            return
        try:
            is_full = path not in self._known and len(self._known) >= MOST
            if self._looked is None or (is_full and now - self._looked >= EVERY_S):
                self._known = set(await self.paths())  # some may have been removed
                self._looked = now
            if path not in self._known and len(self._known) >= MOST:
                log.warning("the report of %s is not noted: there are %s devices", path, MOST)
                return
            numbers = {SEEN: now, **dict.fromkeys(FIELDS, 0), **report}
            limits = [Limit(axis, number) for axis, number in numbers.items()]
            await self._ledger.call("set_limits", ROOT + path, limits)
        except (BudgetError, ValueError) as error:
            log.warning("the report of %s is not noted: %s", path, error)
            return
        self._known.add(path)
        self._noted[path] = (now, report)

    async def paths(self) -> list[str]:
        """Return the accounts of all devices that reported, sorted."""
        accounts = await self._ledger.call("accounts")
        return sorted(path.removeprefix(ROOT) for path in accounts if path.startswith(ROOT))

    async def read(self, path: str) -> dict[str, int | None]:
        """Return the numbers of a device's last report, and when it came."""
        limits = await self._ledger.call("limits", ROOT + path)
        return {limit.axis: limit.cap for limit in limits}


def parse_report(header: str) -> dict[str, int | None]:
    """Return the numbers of a header; `ValueError` if it has others, or none."""
    try:
        said: Any = json.loads(header)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or "spent" not in said or set(said) - set(FIELDS):
        refuse(HEADER, 'like {"spent": 1200, "cap": 50000, "resets_at": 1772409600}', header[:200])
    report: dict[str, int | None] = {"cap": None}
    report.update((name, check_amount(name, said[name])) for name in said)
    return report
