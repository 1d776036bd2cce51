"""Run the shared vectors, which say in JSON what every ledger must answer.

A file is a list of cases: `name`, `steps`, and the `options` of the ledger where it takes any. A
step has at most one operation, by its name, with its arguments:

- `set_limits`: `[path, [[axis, cap, window], ...]]`; `limits`, `balance`, `history`: the path;
  `accounts`, `expire`: `true`;
- `reserve`, `charge`: `[path, amounts]`, with `key` and `ttl`; the hold is known by the name in
  `as` from then on;
- `commit` (with `actual`), `release`, `extend` (with `ttl`): such a name, or `[path, id]`;
- `renew`: `[hold, amounts]`, the hold as in `commit`, with `actual`, `key` and `ttl`; the next hold
  is known by the name in `as`;
- `hold`: `[path, id]`.

`at` sets the clock before: times are UTC, as in `2026-03-01 23:59:59.500`; 0 is a clock without a
date. What must come of it is one of:

- `gives`: the result. A hold is its state, or an object with some of `state`, `amounts`, `actual`,
  `expires_at`, `id`; a balance `[account, axis, window, limit, spent, held]`, or the same with
  `begins_at, resets_at`; a limit `[axis, cap, window]`. Where it is left out a hold must be as the
  operation, had it been the first, leaves it;
- `refused`: `[scope, axis, window, asked, limit, spent, held, resets_at]` of a
  `BudgetExceededError`;
- `raises`: the name of another error; `state` for that of a `HoldSettledError`.
"""

import json
import os

from budget_core.errors import BudgetError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    Call = tuple[str, list[Any], dict[str, Any]]

FOLDER = __file__.rpartition("/")[0] + "/vectors"
OPERATIONS = (
    "set_limits", "limits", "accounts", "reserve", "charge", "commit", "renew", "release", "extend",
    "hold", "expire", "balance", "history",
)  # fmt: skip
WORDS = OPERATIONS + (
    "at", "as", "key", "ttl", "actual", "gives", "refused", "raises", "state"
)  # fmt: skip
TAKES = {"reserve": "held", "charge": "committed", "renew": "held"}
SETTLES = {"commit": "committed", "release": "released", "extend": "held"}
REFUSED = ("scope", "axis", "window", "asked", "limit", "spent", "held", "resets_at")
ROW = ("account", "axis", "window", "limit", "spent", "held", "begins_at", "resets_at")
TTL = 300


WHOLE_SECONDS_ONLY = 1_772_323_200.5 == 1_772_323_200  # floats of 32 bits


class Clock:
    """A ledger's clock, which stands still until a step sets it; it says Unix seconds."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> float:
        return self.ms / 1000 if self.ms % 1000 else self.ms // 1000

    def set(self, text: "Any") -> None:
        """Set the clock."""
        self.ms = moment(text) or 0
        assert int(self() * 1000) == self.ms, f"{text} is no float: take eighths of a second"


def cases() -> "Iterator[dict[str, Any]]":
    """Yield all cases; the name begins with that of the file.

    Cases at fractions of a second are left out where floats cannot hold one.
    """
    for file in sorted(os.listdir(FOLDER)):
        if file.endswith(".json"):
            with open(FOLDER + "/" + file) as stream:
                found = json.load(stream)
            for case in found:
                times = [moment(step.get("at")) or 0 for step in case["steps"]]
                if not (WHOLE_SECONDS_ONLY and any(ms % 1000 for ms in times)):
                    yield dict(case, name=file[:-5] + ": " + case["name"])


def file_of(case: "dict[str, Any]") -> str:
    """Return the name of the file that a case is in."""
    return str(case["name"]).partition(":")[0]


def run(case: "dict[str, Any]", make_ledger: "Callable[..., Any]") -> None:
    """Play a case on the ledger that `make_ledger(clock, **options)` returns.

    Raises `AssertionError` with the case, the step and the difference.
    """
    clock = Clock()
    ledger = make_ledger(clock, **case.get("options", {}))
    steps, outcome = play(case, clock), None
    while True:
        try:
            name, args, kwargs = steps.send(outcome)
        except StopIteration:
            return
        try:
            outcome = getattr(ledger, name)(*args, **kwargs)
        except (BudgetError, ValueError) as error:
            outcome = error


def play(case: "dict[str, Any]", clock: Clock) -> "Generator[Call, Any, None]":
    """Yield the calls of a case, and check what is sent back: a result or an error."""
    holds: dict[str, Any] = {}
    assert not [word for word in case if word not in ("name", "options", "steps")], case["name"]
    for number, step in enumerate(case["steps"]):
        wrong = [word for word in step if word not in WORDS]
        assert not wrong, (case["name"], wrong)
        if "at" in step:
            clock.set(step["at"])
        for name in OPERATIONS:
            if name in step:
                try:
                    args, kwargs = arguments(name, step, holds)
                except ValueError as error:
                    outcome: Any = error
                else:
                    outcome = yield name, args, kwargs
                try:
                    check(name, step, outcome, clock.ms)
                except AssertionError as error:
                    text = "{}, step {} {}: {}".format(
                        case["name"], number + 1, json.dumps(step), error
                    )
                    raise AssertionError(text)  # noqa: B904 - MicroPython has no `from`
                remember(step, name, outcome, holds)


def arguments(
    name: str, step: "dict[str, Any]", holds: "dict[str, Any]"
) -> "tuple[list[Any], dict[str, Any]]":
    """Return what to call an operation with."""
    given = step[name]
    kwargs: dict[str, Any] = {word: step[word] for word in ("key", "ttl", "actual") if word in step}
    if name == "set_limits":
        path, rows = given
        return [path, [Limit(*row) for row in rows]], kwargs
    if name in SETTLES:
        return [known(given, holds)], kwargs
    if name == "renew":
        return [known(given[0], holds), kwargs.pop("actual", None), given[1]], kwargs
    if name in ("accounts", "expire"):
        return [], kwargs
    return (list(given) if isinstance(given, list) else [given]), kwargs


def known(given: "Any", holds: "dict[str, Any]") -> "Any":
    """Return the hold of a name, or of `[path, id]`."""
    return holds[given] if isinstance(given, str) else Hold(*given)


def remember(step: "dict[str, Any]", name: str, outcome: "Any", holds: "dict[str, Any]") -> None:
    """Know the latest hold by its name."""
    if isinstance(outcome, Exception):
        return
    if "as" in step:
        holds[step["as"]] = outcome
    elif name in SETTLES and isinstance(step[name], str):
        holds[step[name]] = outcome


def check(name: str, step: "dict[str, Any]", outcome: "Any", now: int) -> None:
    """Raise an `AssertionError` if that is not what the step says."""
    if "refused" in step or "raises" in step:
        check_error(step, outcome)
        return
    assert not isinstance(outcome, Exception), repr(outcome)
    if name in TAKES or name in SETTLES or name == "hold":
        check_hold(name, step, outcome, now)
    elif name in ("balance", "history"):
        rows = step.get("gives", [])
        if "gives" in step:
            same("rows", [[row.account, row.axis, row.window] for row in outcome],
                 [row[:3] for row in rows])  # fmt: skip
        for got, row in zip(outcome, rows):  # noqa: B905 - MicroPython has no `strict`
            check_row(got, row)
    elif name == "limits":
        same("limits", [[one.axis, one.cap, one.window] for one in outcome], step["gives"])
    else:
        same("result", outcome, step.get("gives") if name != "expire" else step["gives"])


def check_error(step: "dict[str, Any]", outcome: "Any") -> None:
    """Check the kind of an error, and what it carries."""
    wanted = step.get("raises", "BudgetExceededError")
    assert isinstance(outcome, Exception), f"no {wanted} but {outcome!r}"
    same("error", outcome.__class__.__name__, wanted)
    if "state" in step:
        same("state", getattr(outcome, "state", None), step["state"])
    if "refused" in step:
        row: Any = step["refused"]
        same("refused", [getattr(outcome, word) for word in REFUSED], row[:7] + [second(row[7])])
        same("left", getattr(outcome, "left", None), max(0, row[4] - row[5] - row[6]))


def check_hold(name: str, step: "dict[str, Any]", hold: "Any", now: int) -> None:
    """Check a hold: against what is said of it, and else against what the operation makes of it."""
    gives = step.get("gives")
    wanted = {"state": gives} if isinstance(gives, str) else dict(gives or {})
    if name in TAKES:
        if name != "renew":
            same("path", hold.path, step[name][0])
        asked = step[name][1]
        same(
            "amounts",
            hold.amounts,
            {axis: asked[axis] for axis in asked if asked[axis] is not None},
        )
        if "key" in step:
            same("id", hold.id, step["key"])
        else:
            assert hold.id[:1] == "#", "no id: " + repr(hold.id)
    if gives is None and name in ("reserve", "renew"):
        same("expires_at", hold.expires_at, -(-(now + int(step.get("ttl", TTL) * 1000)) // 1000))
    if gives is None and name == "commit":
        same("actual", hold.actual, overlaid(hold.amounts, step.get("actual") or {}))
    if gives is None and name != "hold":
        wanted["state"] = TAKES.get(name) or SETTLES[name]
    if "expires_at" in wanted:
        ms = moment(wanted["expires_at"])
        wanted["expires_at"] = None if ms is None else -(-ms // 1000)
    for word in wanted:
        assert word in ("state", "amounts", "actual", "expires_at", "id"), word
        same(word, getattr(hold, word), wanted[word])
    if name == "charge":
        same("expires_at", hold.expires_at, None)
        same("actual", hold.actual, hold.amounts)
    plain = {"held": None, "released": {}, "expired": hold.amounts}
    same("actual", hold.actual, plain.get(hold.state, hold.actual))


def overlaid(amounts: "dict[str, int]", actual: "dict[str, int]") -> "dict[str, int]":
    """Return what counts as spent: what was held where nothing else is known."""
    found = dict(amounts)
    found.update(actual)
    return found


def check_row(got: "Any", row: "list[Any]") -> None:
    """Check one balance: all that is written, and what follows from it."""
    assert len(row) in (6, 8), "a balance has 6 or 8 figures"
    wanted = row[:6] + [second(at) for at in row[6:]]
    same("balance", [getattr(got, word) for word in ROW[: len(row)]], wanted)
    limit, spent, held = row[3:6]
    same("left", got.left, None if limit is None else max(0, limit - spent - held))
    same("debt", got.debt, 0 if limit is None else max(0, spent - limit))


def same(what: str, got: "Any", wanted: "Any") -> None:
    """Refuse what is not equal."""
    assert got == wanted, f"{what} is {got!r}, not {wanted!r}"


def second(text: "Any") -> int | None:
    """Return the Unix second of a time."""
    ms = moment(text)
    return None if ms is None else ms // 1000


def moment(text: "Any") -> int | None:
    """Return the Unix milliseconds of a time such as `2026-03-01 23:59:59.500`."""
    if not isinstance(text, str):
        assert text is None or text == 0, text
        return 0 if text == 0 else None
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    year -= month <= 2  # years that begin in March have their leap day last
    days = 365 * year + year // 4 - year // 100 + year // 400 - 719_469
    days += (153 * ((month + 9) % 12) + 2) // 5 + day
    clock = [int(text[at : at + 2] or "0") for at in (11, 14, 17)]
    seconds = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    return seconds * 1000 + int(text[20:23] or "0")
