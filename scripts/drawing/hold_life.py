"""The life of a hold, from what a ledger answers to each operation in each state."""

import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from budget_core import Ledger, Limit
from budget_core.errors import BudgetError
from budget_core.ledger.hold import TTL, Hold
from drawing.svg import Drawing

PATH: Final = "acme/agent-7"
LIMIT: Final = 20_000
ASKED: Final = 6_000
USED: Final = 4_812
NEXT: Final = 9_000
EXPIRES: Final = "its ttl ends"
STATES: Final = tuple(
    value for name, value in vars(Hold).items() if name.isupper() and isinstance(value, str)
)
OPERATIONS: Final = tuple(
    name
    for name, operation in inspect.getmembers(Ledger, inspect.isfunction)
    if not name.startswith("_") and list(inspect.signature(operation).parameters)[1:2] == ["hold"]
)


class Outcome(NamedTuple):
    """What an operation makes of a hold: its state, and what then counts on its limit.

    `error` is the class of the error that was raised, or empty; `next_held` is what a hold that
    was taken in the same step holds.
    """

    state: str
    spent: int
    held: int
    error: str = ""
    next_held: int = 0


class _Trial:
    """A ledger with one limit, one hold and a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_767_225_600.0
        self.ledger = Ledger(clock=lambda: self.now)
        self.ledger.set_limits(PATH, [Limit("tokens", LIMIT)])
        self.hold = self.ledger.reserve(PATH, {"tokens": ASKED}, key="call-1")

    def bring_to(self, state: str) -> None:
        ways = {Hold.COMMITTED: "commit", Hold.RELEASED: "release", Hold.EXPIRED: EXPIRES}
        if state != Hold.HELD:
            self.do(ways[state])

    def do(self, operation: str) -> Outcome:
        """Do one operation on the hold, and return what became of it."""
        error, taken = "", 0
        try:
            if operation == EXPIRES:
                self.now += TTL
                self.ledger.expire()
            else:
                given: dict[str, Any] = {
                    "commit": ({"tokens": USED},),
                    "renew": ({"tokens": USED}, {"tokens": NEXT}),
                }
                answer = getattr(self.ledger, operation)(self.hold, *given.get(operation, ()))
                taken = 0 if answer.id == self.hold.id else NEXT
        except BudgetError as caught:
            error = type(caught).__name__
        [balance] = self.ledger.balance(PATH)
        return Outcome(self.hold.state, balance.spent, balance.held - taken, error, taken)


def outcomes() -> Iterator[tuple[str, str, Outcome]]:
    """Yield `(state, operation, outcome)` for each operation in each state."""
    for state in STATES:
        for operation in (*OPERATIONS, EXPIRES):
            trial = _Trial()
            trial.bring_to(state)
            yield state, operation, trial.do(operation)


def counts(state: str) -> str:
    """Return in words how much of a hold counts in a state."""
    trial = _Trial()
    trial.bring_to(state)
    [balance] = trial.ledger.balance(PATH)
    held, spent = f"{balance.held:,} held", f"{balance.spent:,} spent"
    return held if balance.held else spent if balance.spent else "nothing counts"


def steps() -> set[tuple[str, str, str]]:
    """Return `(state, operation, next state)` of all that changes a hold or keeps it alive."""
    return {
        (state, operation, after.state)
        for state, operation, after in outcomes()
        if not after.error and (state != after.state or (state, operation) == (Hold.HELD, "extend"))
    }


_WIDTH: Final = 170
_HEIGHT: Final = 58
_PLACES: Final = {  # the middle of each box
    "asked": (109, 215),
    "refused": (109, 335),
    Hold.HELD: (395, 215),
    Hold.COMMITTED: (760, 95),
    Hold.EXPIRED: (760, 215),
    Hold.RELEASED: (760, 335),
}
_EDGES: Final = {
    "refused": "to-bad",
    Hold.HELD: "to-held",
    Hold.COMMITTED: "to-used",
    Hold.EXPIRED: "to-used",
}


class _Way(NamedTuple):
    """A line from one state to the next: its path, its words by operation, and their place."""

    path: str
    words: dict[str, str]
    x: float
    y: float
    anchor: str = "start"


_WAYS: Final = {
    (Hold.HELD, Hold.HELD): _Way(
        "M360 186C350 125 440 125 430 180",
        {"extend": "extend: live for longer"},
        395,
        128,
        "middle",
    ),
    (Hold.HELD, Hold.COMMITTED): _Way(
        "M480 203C560 203 580 95 669 95",
        {"commit": "commit: what the call used", "renew": "renew: this, and the next is held"},
        650,
        64,
        "end",
    ),
    (Hold.HELD, Hold.EXPIRED): _Way("M480 215H669", {EXPIRES: "its ttl ends"}, 575, 207, "middle"),
    (Hold.HELD, Hold.RELEASED): _Way(
        "M480 227C560 227 580 335 669 335",
        {"release": "release: it was never sent"},
        650,
        362,
        "end",
    ),
    (Hold.EXPIRED, Hold.COMMITTED): _Way(
        "M720 186V130", {"commit": "a late commit", "renew": "or renew"}, 730, 152
    ),
    (Hold.RELEASED, Hold.COMMITTED): _Way("M845 335H872V95H851", {"commit": "", "renew": ""}, 0, 0),
}


def drawing() -> Drawing:
    """Return the drawing; `ValueError` if the ledger does what has no place in it."""
    done: dict[tuple[str, str], set[str]] = {}
    for state, operation, after in steps():
        done.setdefault((state, after), set()).add(operation)
    drawn = {way: set(_WAYS[way].words) for way in _WAYS}
    if done != drawn or set(STATES) != set(_PLACES) - {"asked", "refused"}:
        raise ValueError(f"the ledger does {done}, and the drawing has {drawn}")
    picture = Drawing(
        900,
        392,
        "The life of a hold",
        f"A call asks for {ASKED:,} tokens of {LIMIT:,}. If they do not fit, it is refused. Else "
        f"they are held until the call is committed with the {USED:,} that it used, released "
        "because it was never sent, or expired, which counts in full. A late commit replaces what "
        "an expired or a released hold counted as.",
    )
    picture.text(24, 34, f"One call on a limit of {LIMIT:,} tokens", "big")
    picture.line("M194 215H304", "line", arrow=True)
    picture.text(249, 205, "it fits", "small", "middle")
    picture.line("M109 244V300", "line", arrow=True)
    picture.text(119, 278, "too little is left", "small")
    for way in _WAYS.values():
        picture.line(way.path, "line", arrow=True)
        for row, words in enumerate(words for words in way.words.values() if words):
            picture.text(way.x, way.y + 17 * row, words, "small", way.anchor)
    counted = {"asked": f"for {ASKED:,}", "refused": "nothing is sent"}
    for name, (x, y) in _PLACES.items():
        edge = _EDGES.get(name, "")
        picture.box(x - _WIDTH / 2, y - _HEIGHT / 2, _WIDTH, _HEIGHT, f"box {edge}".strip(), 8)
        picture.text(x, y - 5, name, "name", "middle")
        picture.text(x, y + 16, counted.get(name) or counts(name), "soft", "middle")
    return picture
