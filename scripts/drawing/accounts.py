"""A tree of accounts with their limits, and what is spent and held, from a ledger."""

from typing import Final

from budget_core import Ledger, Limit
from budget_core.ledger.hold import Balance
from budget_cpython.ops.words import limit_text, short_amount
from drawing.svg import Drawing

NOW: Final = 1_767_225_600  # 2026-01-01
LIMITS: Final = {
    "acme": [Limit("usd", "100", "month"), Limit("calls", 1_000, "hour")],
    "acme/research": [Limit("usd", "20", "day"), Limit("tokens", 2_000_000, "day")],
    "acme/support": [Limit("usd", "5", "day")],
}
SPENT: Final = {
    "acme/research/agent-7": {"usd": "9.20", "tokens": 812_000, "calls": 310},
    "acme/research/agent-8": {"usd": "4.10", "tokens": 455_000, "calls": 122},
    "acme/support/bot": {"usd": "3.85", "tokens": 640_000, "calls": 204},
}
CALLER: Final = "acme/research/agent-7"
CALL: Final = {"usd": "2.40", "tokens": 300_000, "calls": 1}


def filled_ledger() -> Ledger:
    """Return a ledger with some use, and one call of an agent in flight."""
    ledger = Ledger(clock=lambda: NOW)
    for account, limits in LIMITS.items():
        ledger.set_limits(account, limits)
    for path, used in SPENT.items():
        ledger.charge(path, used)
    ledger.reserve(CALLER, CALL)
    return ledger


_BOX: Final = 300
_LEAF: Final = 220
_PLACES: Final = {  # the left upper corner of each box
    "acme": (286, 60),
    "acme/research": (114, 200),
    "acme/support": (490, 200),
    CALLER: (24, 342),
    "acme/research/agent-8": (284, 342),
    "acme/support/bot": (530, 342),
}


def drawing() -> Drawing:
    """Return the drawing."""
    ledger = filled_ledger()
    balances = {account: _own(ledger, account) for account in LIMITS}
    counts = "; ".join(
        f"{account}: {', '.join(map(_words, rows))}" for account, rows in balances.items()
    )
    picture = Drawing(
        900,
        418,
        "A tree of accounts",
        f"A call of {CALLER} is held on each limit of each account above it. {counts}.",
    )
    picture.text(24, 34, "One call is held on every limit above it, in one step", "big")
    for path in sorted(_PLACES, key=_is_held):  # what the call draws on lies above
        if "/" in path:
            _join(picture, path.rpartition("/")[0], path, balances)
    for path, (x, y) in _PLACES.items():
        _account(picture, x, y, path, balances.get(path, []))
    for x, kind, words in ((760, "used", "spent"), (760, "held", "held")):
        y = 84 if kind == "used" else 108
        picture.box(x, y - 10, 26, 10, kind, 3)
        picture.text(x + 36, y, words, "small")
    return picture


def _own(ledger: Ledger, account: str) -> list[Balance]:
    return [row for row in ledger.balance(account) if row.account == account]


def _is_held(path: str) -> bool:
    return f"{CALLER}/".startswith(f"{path}/")


def _words(row: Balance) -> str:
    limit = limit_text(row.axis, row.limit, row.window)
    held = f" + {short_amount(row.axis, row.held)} held" if row.held else ""
    return f"{short_amount(row.axis, row.spent)}{held} of {limit}"


def _height(rows: int) -> int:
    return 36 + 34 * rows if rows else 52


def _join(picture: Drawing, above: str, path: str, balances: dict[str, list[Balance]]) -> None:
    """Draw the line from an account to the one above it, with an arrow where the call is held."""
    top, under = _PLACES[above], _PLACES[path]
    bottom = top[1] + _height(len(balances[above]))
    width = _BOX if path in balances else _LEAF
    half = (bottom + under[1]) // 2 if path in balances else under[1] - 26
    to, of = top[0] + _BOX // 2, under[0] + width // 2
    kind = "line to-held wide" if _is_held(path) else "line"
    picture.line(f"M{of} {under[1]}V{half}H{to}V{bottom}", kind)


def _account(picture: Drawing, x: int, y: int, path: str, rows: list[Balance]) -> None:
    held = _is_held(path)
    kind = "box to-held" if held else "box"
    if not rows:
        picture.box(x, y, _LEAF, _height(0), f"{kind} broken", 8)
        picture.text(x + 14, y + 22, path, "small name")
        text = "a call in flight" if held else "no limits of its own"
        picture.text(x + 14, y + 41, text, "small soft")
        return
    picture.box(x, y, _BOX, _height(len(rows)), kind, 8)
    picture.text(x + 14, y + 24, path, "name")
    for number, row in enumerate(rows):
        top = y + 42 + 34 * number
        picture.text(x + 14, top, _words(row), "small soft")
        wide = _BOX - 28
        part = [round(wide * amount / (row.limit or 1), 1) for amount in (row.spent, row.held)]
        picture.box(x + 14, top + 6, wide, 8, "faint", 3)
        picture.box(x + 14, top + 6, part[0], 8, "used", 3)
        picture.box(x + 14 + part[0], top + 6, part[1], 8, "held")
