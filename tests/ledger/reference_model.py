"""A model of the ledger that counts nothing: it adds up all there ever was, each time."""

from typing import Any

HOUR = 3_600_000
NOON = 20_514 * 24 * HOUR + 12 * HOUR
SIZES = {"hour": HOUR, "day": 24 * HOUR, "rolling 7200/2": HOUR}  # of windows, and of buckets
REACH = {"rolling 7200/2": 2 * HOUR}


class Span:
    """A window or bucket of a limit; `None` begins before anybody knew the date."""

    def __init__(self, start: int | None) -> None:
        self.start = start


class Rule:
    """A limit as it was made: the spans it went through, and no numbers."""

    def __init__(self, path: str, axis: str, window: str, cap: int | None, now: int) -> None:
        self.path, self.axis, self.window, self.cap = path, axis, window, cap
        self.spans: list[Span] = [Span(self.begins(now))]
        self.span = self.spans[0]

    def begins(self, now: int) -> int | None:
        if self.window == "run":
            return 0
        return now // SIZES[self.window] * SIZES[self.window] if now else None

    def ends(self) -> int | None:
        if self.window == "run":
            return None
        return 1 if self.span.start is None else self.span.start + SIZES[self.window]

    def move(self, now: int) -> None:
        ends = self.ends()
        if ends is not None and now >= ends:
            self.go(now)

    def go(self, now: int) -> None:
        start = self.begins(now)
        known = [span for span in self.spans if span.start == start]
        if known:
            self.span = known[0]
        elif self.span.start is None or start is None or start < self.span.start:
            self.span.start = start
        else:
            self.span = Span(start)
            self.spans.append(self.span)

    def counting(self) -> list[Span]:
        start = self.span.start or 0
        first = start - REACH.get(self.window, 0)
        return [span for span in self.spans if first <= (span.start or 0) <= start]


class Model:
    """All that was ever held or charged, in a list."""

    def __init__(self) -> None:
        self.now = NOON
        self.accounts: dict[str, list[Rule]] = {}
        self.holds: list[dict[str, Any]] = []

    def chain(self, path: str) -> list[Rule]:
        parts = path.split("/")
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        rules = [one for place in above for one in self.accounts.get(place, [])]
        for one in rules:
            one.move(self.now)
        return rules

    def sums(self, one: Rule, spans: list[Span]) -> tuple[int, int]:
        """Return what is spent and held, from what became of every hold there ever was."""
        spent = held = 0
        for hold in self.holds:
            if hold["spans"].get(one) in spans:
                spent += (hold["actual"] or {}).get(one.axis, 0)
                held += hold["amounts"].get(one.axis, 0) if hold["state"] == "held" else 0
        return spent, held

    def expire(self, hold: dict[str, Any]) -> bool:
        due = hold["state"] == "held" and bool(self.now >= hold["expires"])
        if due:
            hold.update(state="expired", actual=hold["amounts"])
        return due

    def refusing(self, path: str, amounts: dict[str, int]) -> list[Rule]:
        found = []
        for one in self.chain(path):
            spent, held = self.sums(one, one.counting())
            if one.axis in amounts and one.cap is not None:
                found += [one] if spent + held + amounts[one.axis] > one.cap else []
        return found

    def add(self, path: str, amounts: dict[str, int], key: str | None, expires: int | None) -> Any:
        hold = {
            "path": path, "amounts": amounts, "key": key, "expires": expires,
            "state": "committed" if expires is None else "held",
            "actual": amounts if expires is None else None,
            "spans": {one: one.span for one in self.chain(path)},
        }  # fmt: skip
        self.holds.append(hold)
        return hold

    def known(self, path: str, key: str | None) -> Any:
        root = path.split("/")[0]
        for hold in self.holds:
            if key is not None and hold["key"] == key and hold["path"].split("/")[0] == root:
                return hold
        return None
