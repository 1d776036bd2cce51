"""Dollars at the edge, whole nano-USD inside: exact on both sides, without arithmetic on floats."""

from budget_core import (
    Budget,
    BudgetExceededError,
    Envelope,
    Ledger,
    Limit,
    Price,
    StopReason,
    WindDown,
)
from budget_core.agent.stop_condition import MaxCost
from budget_core.ledger.hold import Balance
from budget_core.money import dollars, in_nano
from budget_core.notices import fill
from tests_micro.script import SHOUT, play, says
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DOLLAR = 1_000_000_000
NO_DOLLARS: "tuple[Any, ...]" = (
    "",
    "-1",
    -1,
    -0.5,
    True,
    None,
    float("nan"),
    float("inf"),
    "1e3",
    "1.2.3",
    "1,000",
    "$5",
    " 5",
    "\u0663",
    "9" * 41,
    [1],
    b"5",
)


def test_text_and_whole_numbers_are_dollars_to_the_last_digit() -> None:
    for usd, nano in (
        ("0.50", DOLLAR // 2),
        (".5", DOLLAR // 2),
        ("5", 5 * DOLLAR),
        (5, 5 * DOLLAR),
        (0, 0),
        ("0", 0),
        ("0.000000001", 1),
        ("16777217.000000001", 16_777_217 * DOLLAR + 1),
    ):
        assert in_nano("usd", usd) == nano, usd


def test_a_float_is_the_dollars_that_it_prints() -> None:
    for usd, nano in ((0.5, 500_000_000), (0.07, 70_000_000), (4.02, 4_020_000_000), (1e-9, 1)):
        assert in_nano("usd", usd) == nano, usd
    assert in_nano("usd", 0.1 + 0.2) == 300_000_000
    assert in_nano("usd", 0.7 + 0.1) == 800_000_000


def test_a_float_below_the_smallest_amount_is_refused() -> None:
    for usd in (1e-10, 1e-12, 9e-10):
        assert "at most 9 decimals" in str(raises(ValueError, in_nano, "usd", usd)), usd
    assert in_nano("usd", 0.0) == 0
    raises(ValueError, in_nano, "usd", -0.0)
    raises(ValueError, Limit, "usd", 1e-10)
    raises(ValueError, Ledger().charge, "org", {"usd": 1e-10})


def test_every_cent_up_to_twenty_dollars_is_exact_as_a_float() -> None:
    for cents in range(2001):
        assert in_nano("usd", cents / 100) == cents * 10_000_000, cents


def test_what_is_not_dollars_is_refused_by_name() -> None:
    for bad in NO_DOLLARS:
        assert "usd must be dollars" in str(raises(ValueError, in_nano, "usd", bad)), bad
    assert "at most 9 decimals" in str(raises(ValueError, in_nano, "usd", "0.0000000001"))


def test_dollars_have_two_decimals_or_as_many_as_it_takes() -> None:
    for nano, text in (
        (0, "$0.00"),
        (4 * DOLLAR, "$4.00"),
        (500_000_000, "$0.50"),
        (2_700_000, "$0.0027"),
        (1, "$0.000000001"),
        (1234 * DOLLAR + 5_600_000_000, "$1239.60"),
    ):
        assert dollars(nano) == text
        assert in_nano("usd", text[1:]) == nano
    assert dollars(-5) == "-$0.000000005"
    assert dollars(-1_500_000_000) == "-$1.50"


def test_a_budget_is_given_in_dollars_and_kept_in_nano_usd() -> None:
    for usd in ("0.50", 0.5):
        assert Budget(max_usd=usd).max_nano_usd == 500_000_000
    assert Budget(max_usd=0).max_nano_usd == 0
    assert Budget().max_nano_usd is None
    assert not Budget(max_usd=1).is_unlimited()
    budget = Budget(max_turns=3, max_usd=1)
    assert budget.replace(max_usd="0.25").max_nano_usd == 250_000_000
    assert budget.replace(max_nano_usd=7).max_nano_usd == 7
    for bad in NO_DOLLARS:
        if bad is not None:
            assert "max_usd" in str(raises(ValueError, Budget, max_usd=bad)), bad


def test_a_childs_limit_and_an_extension_are_given_in_dollars() -> None:
    envelope = Envelope.open(Budget(max_usd="1.00", last_call=None))
    child = envelope.child(max_usd="0.25", last_call=None)
    assert child.remaining()["nano_usd"] == DOLLAR // 4
    child.extend(max_usd="0.50")
    assert child.remaining()["nano_usd"] == 3 * DOLLAR // 4
    assert "max_usd" in str(raises(ValueError, child.extend, max_usd="lots"))


def test_a_condition_on_the_cost_is_given_in_dollars() -> None:
    envelope = Envelope.open(Budget())
    condition = MaxCost("0.02")
    envelope.book(0, 19_999_999)
    assert condition.check(envelope) is None
    envelope.book(0, 1)
    assert str(condition.check(envelope)) == "cost limit: $0.02 of $0.02"


def test_a_limit_in_dollars_is_counted_in_nano_usd() -> None:
    assert Limit("usd", "5.00", "day") == Limit("nano_usd", 5 * DOLLAR, "day")
    assert Limit("usd", 0.07) == Limit("nano_usd", 70_000_000)
    assert Limit("usd", None) == Limit("nano_usd", None)
    for bad in NO_DOLLARS:
        if bad is not None:
            assert "usd" in str(raises(ValueError, Limit, "usd", bad)), bad
    assert "2**53 - 1" in str(raises(ValueError, Limit, "usd", 10**8))


def test_amounts_of_a_ledger_may_be_in_dollars() -> None:
    ledger = Ledger()
    ledger.set_limits("acme", [Limit("usd", "5.00", "run")])
    hold = ledger.reserve("acme", {"usd": "1.50"})
    assert hold.amounts == {"nano_usd": 1_500_000_000}
    ledger.commit(hold, {"usd": 0.07})
    ledger.charge("acme", {"usd": "0.000000001", "calls": 1})
    [row] = ledger.balance("acme")
    assert (row.axis, row.spent) == ("nano_usd", 70_000_001)
    both = {"usd": "1.00", "nano_usd": 5}
    assert "not of both" in str(raises(ValueError, ledger.charge, "acme", both))
    assert "amount of usd" in str(raises(ValueError, ledger.charge, "acme", {"usd": "-1"}))


def test_a_ledger_of_dollars_alone_is_named_by_them() -> None:
    ledger = Ledger(axes=["usd"])
    ledger.set_limits("acme", [Limit("usd", "5.00")])
    ledger.charge("acme", {"usd": 1})
    raises(ValueError, ledger.charge, "acme", {"tokens": 1})


def test_a_refusal_names_dollars() -> None:
    ledger = Ledger()
    ledger.set_limits("acme", [Limit("usd", 5, "run")])
    ledger.charge("acme", {"usd": 4})
    error = raises(BudgetExceededError, ledger.reserve, "acme", {"usd": "1.50"})
    assert (error.axis, error.left, error.asked) == ("nano_usd", DOLLAR, 1_500_000_000)
    assert str(error).startswith("acme has $1.00 of $5.00 per run left, not $1.50")
    assert "$4.00 spent, $0.00 held" in str(error)


def test_a_balance_shows_dollars() -> None:
    row = Balance("acme", "nano_usd", "day", 5 * DOLLAR, 4 * DOLLAR, DOLLAR // 2, 0, None)
    assert repr(row) == "<Balance of 'acme': $4.00 of $5.00 per day spent, $0.50 held>"
    row = Balance("acme", "nano_usd", "day", None, 4 * DOLLAR, 0, 0, None)
    assert repr(row) == "<Balance of 'acme': $4.00 of no limit per day spent, $0.00 held>"


def test_a_reason_shows_dollars() -> None:
    reason = StopReason(StopReason.COST_LIMIT, "", "nano_usd", 4 * DOLLAR, 5 * DOLLAR, DOLLAR // 2)
    assert str(reason) == "cost limit: $4.00 of $4.50, and $0.50 reserved for the answer"


def test_a_notice_shows_dollars_and_no_unit() -> None:
    axis: Any = ("acme", "nano_usd", 4 * DOLLAR, 5 * DOLLAR, 0)
    assert fill("{used} of {cap} {unit} used", axis) == "$4.00 of $5.00 used"
    axis = ("acme", "nano_usd per day", 4 * DOLLAR, 5 * DOLLAR, DOLLAR)
    told = "($4.00/$4.00 per day, and $1.00 reserved for the answer)"
    assert fill("({used}/{cap} {unit}{reserved})", axis) == told


async def test_a_run_that_nears_its_limit_of_money_reads_dollars() -> None:
    played = await play(
        SHOUT,
        says("done"),
        budget=Budget(max_usd="0.0001", last_call=None),
        prices={"script": Price("1.00", "0")},
        wind_down=WindDown(notice_at=(0.8,), notice_template="{used} of {cap} {unit} used"),
    )
    assert [message["content"] for message in played.script.sent[1]][-1] == (
        "$0.00009 of $0.0001 used"
    )


def test_a_price_is_decimal_text_a_whole_number_or_a_float() -> None:
    assert Price("0.075", "15").cost(1_000_000, 0) == 75_000_000
    assert Price(0.075, 15).cost(1_000_000, 1) == 75_015_000
    assert Price("0.000001", 0).cost(1000, 0) == 1
    assert Price(0, 1_000_000).cost(0, 1_000_000) == 10**15
    assert "6 decimals" in str(raises(ValueError, Price, "0.0000001", 1))
    assert "a million" in str(raises(ValueError, Price, "1000000.000001", 1))
