"""What a run says of itself."""

import json

import pytest

from budget_core.ledger.hold import Balance
from budget_cpython.ops.words import duration
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel
from budget_cpython.run.command import Ending
from budget_cpython.run.report import Report
from budget_cpython.run.status_line import left_line

NEVER = float("inf")


def ending(code: int = 0, signal: int | None = None, late: bool = False) -> Ending:
    return Ending(code, signal, late, False, ())


def report(end: Ending, refused: int = 0, *rows: tuple[str, ModelUsage]) -> Report:
    usage = UsageByModel()
    for model, row in rows:
        usage.add(model, row)
    limits = [Balance("run", "calls", "run", 20, 12, 0, 0, None)]
    return Report(["node", "agent.js"], end, refused, "no call is left", 252.4, usage, limits)


@pytest.mark.parametrize(
    ("end", "refused", "by", "code"),
    [
        (ending(0), 0, "command", 0),
        (ending(3), 0, "command", 3),
        (ending(137, 9), 0, "command", 137),
        (ending(0), 2, "command", 0),  # it wound down
        (ending(3), 2, "budget", 75),
        (ending(143, 15), 2, "command", 143),  # a signal is not the budget's
        (ending(143, 15, late=True), 0, "deadline", 75),
        (ending(0, late=True), 2, "deadline", 75),
    ],
)
def test_the_exit_code_is_75_where_the_budget_or_the_deadline_ended_it(
    end: Ending, refused: int, by: str, code: int
) -> None:
    one = report(end, refused)
    assert (one.ended_by, one.exit_code) == (by, code)


def test_the_lines_are_a_sum_a_table_and_what_was_refused() -> None:
    one = report(
        ending(1),
        2,
        ("gpt-4o-mini", ModelUsage(10, 12_000, 900, 4000, 2_340_000)),
        ("claude-sonnet-5", ModelUsage(2, 800, 90, 0, 5_000_000, unpriced=1)),
        ("(other requests)", ModelUsage(calls=1, unpriced=1)),
    )
    assert one.lines() == [
        "microbudget: 13 calls, 13,790 tokens, $0.00734 or more, in 4 min",
        "  model             calls   input  cached  output            cost",
        "  gpt-4o-mini          10  12,000   4,000     900        $0.00234",
        "  claude-sonnet-5       2     800       0      90  $0.005 or more",
        "  (other requests)      1       0       0       0   price unknown",
        "microbudget: 2 calls were refused: no call is left",
        "microbudget: the budget ended the command; the command's own exit code was 1",
    ]


def test_a_models_name_cannot_act_on_a_terminal() -> None:
    name = "gpt\x1b]0;spent\x07\r\nmicrobudget: 0 calls\u202e\ud800" + "x" * 1000
    one = report(ending(), 0, (name, ModelUsage(1, 2, 3)))
    head, _, line = one.lines()
    assert head.startswith("microbudget: 1 call,")
    assert line.isprintable()
    assert line.startswith("  gpt\\x1b]0;spent\\x07\\r\\nmicrobudget: 0 calls\\u202e\\ud800xxx")
    assert len(line) < 400


def test_the_json_has_the_same() -> None:
    end = Ending(143, 15, True, False, (4711,))
    said = report(end, 0, ("m", ModelUsage(1, 5, 6, 0, 7_000_000))).as_json()
    assert said == json.loads(json.dumps(said))
    counts = {"calls": 1, "input": 5, "output": 6, "cached": 0, "nano_usd": 7_000_000}
    used = {**counts, "estimated": 0, "unpriced": 0, "usd": "0.007"}
    row = {"account": "run", "axis": "calls", "window": "run", "limit": 20, "spent": 12}
    assert said == {
        "command": ["node", "agent.js"],
        "exit_code": 75,
        "command_exit_code": 143,
        "signal": 15,
        "ended_by": "deadline",
        "refused_calls": 0,
        "last_refusal": "no call is left",
        "seconds": 252.4,
        "total": used,
        "models": {"m": used},
        "limits": [{**row, "held": 0, "left": 8, "resets_at": None}],
    }


def test_processes_that_could_not_be_ended_are_named() -> None:
    lines = report(Ending(143, 15, True, False, (4711, 4712))).lines()
    assert lines[-1] == "microbudget: processes that could not be ended: 4711, 4712"


@pytest.mark.parametrize(
    ("rows", "seconds", "says"),
    [
        ([], NEVER, ""),
        ([], 90.9, "microbudget: 90 s left"),
        ([("usd", 5_000_000_000, 1_809_999_999)], NEVER, "microbudget: $3.19 of $5.00 left"),
        ([("usd", 50_000_000, 1_234_567)], NEVER, "microbudget: $0.0487 of $0.05 left"),
        ([("usd", 5_000_000_000, 6_000_000_000)], NEVER, "microbudget: $0.00 of $5.00 left"),
        ([("calls", None, 7)], NEVER, ""),
        (
            [("calls", 200, 12), ("tokens", 1_000_000, 250_000)],
            1259.0,
            "microbudget: 188 of 200 calls | 750,000 of 1,000,000 tokens | 20 min left",
        ),
    ],
)
def test_the_line_says_what_is_left(
    rows: list[tuple[str, int | None, int]], seconds: float, says: str
) -> None:
    axes = {"usd": "nano_usd"}
    balance = [
        Balance("run", axes.get(a, a), "run", cap, used, 0, 0, None) for a, cap, used in rows
    ]
    assert left_line(balance, seconds) == says


def test_a_window_is_said_in_the_line() -> None:
    row = Balance("me", "calls", "day", 9, 2, 3, 0, None)
    assert left_line([row], NEVER) == "microbudget: 4 of 9 calls per day left"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0.4, "0 s"), (119.9, "119 s"), (120, "2 min"), (7199, "119 min"), (11_700, "3 h 15 min")],
)
def test_a_time_is_rounded_down(seconds: float, says: str) -> None:
    assert duration(seconds) == says
