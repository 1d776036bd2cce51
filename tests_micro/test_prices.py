"""What tokens cost: whole numbers, rounded up, and exact."""

from budget_core import Price
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_PRICES: "tuple[Any, ...]" = (
    -0.01,
    float("nan"),
    float("inf"),
    1_000_001,
    True,
    False,
    "3 $",
    "0.0000001",
    None,
    [3],
)
PRICES = ((3, 15), (0.15, 0.6), (0.075, 0.3), (0, 0.001), (0.001, 0), (0, 0), (0.000001, 7))


def test_a_price_is_checked_by_its_name() -> None:
    for bad in NO_PRICES:
        assert "input" in str(raises(ValueError, Price, bad, 1)), bad
        assert "output" in str(raises(ValueError, Price, 1, bad)), bad
        if bad is not None:
            assert "cached" in str(raises(ValueError, Price, 1, 1, bad)), bad


def test_a_call_costs_what_the_list_says_in_billionths() -> None:
    price = Price(3, 15)
    assert price.cost(0, 0) == 0
    assert price.cost(1_000_000, 0) == 3_000_000_000
    assert price.cost(0, 1_000_000) == 15_000_000_000
    assert price.cost(1000, 100) == 3_000_000 + 1_500_000
    assert Price(0.15, 0.6).cost(1, 1) == 750


def test_a_price_is_taken_to_the_nearest_millionth_of_a_dollar() -> None:
    for micro in (1, 7, 999_999, 2_010_000, 4_020_000, 8_030_000):
        assert Price(micro / 1_000_000, 0).cost(1000, 0) == micro, micro


def test_a_fraction_of_a_billionth_is_rounded_up_once_a_call() -> None:
    price = Price(0.000001, 0.0004)
    assert [price.cost(0, count) for count in (0, 1, 2, 3, 5)] == [0, 1, 1, 2, 2]
    assert price.cost(1, 0) == 1
    assert price.cost(1000, 0) == 1
    assert price.cost(1001, 0) == 2


def test_costs_are_whole_numbers_however_large() -> None:
    cost = Price(75, 1_000_000).cost((1 << 60) - 1, (1 << 60) - 1)
    assert isinstance(cost, int)
    assert cost == ((1 << 60) - 1) * 1_000_075_000


def test_cached_tokens_have_their_own_price_and_are_part_of_the_prompt() -> None:
    price = Price(3, 15, 0.3)
    assert price.cost(1000, 0, 400) == 600 * 3000 + 400 * 300
    assert price.cost(1000, 0, 1000) == price.cost(1000, 0, 5000) == 300_000
    assert Price(3, 15).cost(1000, 0, 400) == Price(3, 15).cost(1000, 0)
    assert Price(3, 15, 0).cost(1000, 0, 1000) == 0


def test_affordable_is_the_largest_completion_whose_cost_fits() -> None:
    for one, other in PRICES:
        price = Price(one, other)
        for money in (0, 1, 2, 999, 1000, 3001, 15_000):
            for prompt in (0, 1, 2, 7, 333):
                most = price.affordable(money, prompt)
                case = (one, other, money, prompt, most)
                if most is None:
                    assert other == 0, case
                    assert price.cost(prompt, 10**9) <= money, case
                elif most < 0:
                    assert most == -1, case
                    assert price.cost(prompt, 0) > money, case
                else:
                    assert price.cost(prompt, most) <= money < price.cost(prompt, most + 1), case


def test_affordable_is_found_by_counting_too() -> None:
    price = Price(0.7, 1.1)
    for money in range(0, 40_000, 777):
        fitting = [count for count in range(40) if price.cost(5, count) <= money]
        assert price.affordable(money, 5) == (fitting[-1] if fitting else -1), money


def test_what_is_free_is_affordable_without_money() -> None:
    assert Price(0, 0).affordable(0, 1000) is None
    assert Price(0, 1).affordable(0, 1000) == 0
    assert Price(1, 0).affordable(0, 1) == -1
    assert Price(1, 0).affordable(1000, 1) is None


def test_tokens_written_to_a_cache_have_a_price_of_their_own() -> None:
    price = Price(3, 15, cached=0.3, cache_write=3.75)
    assert price.cost(100, 0, 0, 100) == 375_000
    assert price.cost(100, 10, 40, 50) == 10 * 3_000 + 40 * 300 + 50 * 3_750 + 10 * 15_000
    assert price.cost(100, 0, 80, 50) == 80 * 300 + 20 * 3_750
    assert Price(3, 15).cost(100, 0, 0, 100) == 300_000
