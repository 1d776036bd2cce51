"""Power cut at every block operation of a chip's budget, on real littlefs and FAT code.

CPython has neither: no test is defined there.
"""

import gc

from budget_core import FileBudgetStore
from tests_micro.flash import KINDS, Flash, cuts, faults_of, spoils
from tests_micro.power_loss import COSTS, PATH, PowerLoss, day_of
from tests_micro.support import SLOW

TRIED = KINDS[1:3] if SLOW else KINDS
ALLOWANCE = 100


def campaigns(
    life: str, allowance: int, strides: "tuple[int, int]"
) -> "list[tuple[str, dict[str, int]]]":
    """Cut the power of each kind of chip with each fault; return what was counted."""
    found = []
    for kind in TRIED:
        for fault in faults_of(kind):
            first, second = strides
            apart = (first, second * 2) if kind == "FAT 4096" else strides  # the slowest
            work = PowerLoss(kind, (fault, fault), allowance, strides=apart)
            found.append((f"{kind}, {fault}", work.run(life)))
    return found


def provisioned_up_to_a_cut(kind: str, fault: str) -> "list[Flash]":
    """Return what each cut leaves of a chip that is being provisioned."""
    flash = Flash(kind)
    before = dict(flash.image)
    log = flash.noted()
    with flash:
        FileBudgetStore(PATH).provision()
    return [Flash(kind, image) for _, image, _ in cuts(before, log, fault, flash.size)]


if KINDS:

    def test_two_cuts_anywhere_lose_nothing_and_count_at_most_the_call_in_flight() -> None:
        for name, counted in campaigns("used", 0, (1, 9)):
            assert counted["over"] == 0, name
            assert counted["denied"] == 0, name
            assert counted["single"] >= len(COSTS), name
            assert counted["double"] >= len(COSTS) * (len(COSTS) - 1) // 18, name

    def test_two_cuts_anywhere_count_at_most_the_allowance_too_much_each() -> None:
        highest = 0
        for name, counted in campaigns("used", ALLOWANCE, (1, 5)):
            assert counted["over"] <= 2 * ALLOWANCE, name
            assert counted["denied"] == 0, name
            assert counted["single"] > 4, name
            highest = max(highest, counted["over"])
        assert highest > ALLOWANCE

    def test_two_cuts_of_a_new_chip_leave_it_new_or_in_use() -> None:
        for allowance, strides in ((0, (4, 13)), (ALLOWANCE, (5, 13))):
            for name, counted in campaigns("new", allowance, strides):
                assert counted["over"] <= 2 * allowance, name
                # FAT is gone where its table of what is in use is erased and not written again.
                assert counted["denied"] == 0 or name.startswith("FAT"), name
                assert counted["denied"] < counted["single"] + counted["double"], name

    def test_a_chip_whose_provisioning_was_cut_off_is_new_and_can_be_provisioned() -> None:
        for kind in KINDS:
            for fault in [fault for fault in faults_of(kind) if not spoils(kind, fault)]:
                for flash in provisioned_up_to_a_cut(kind, fault):
                    with flash:
                        assert FileBudgetStore(PATH).load() is None, (kind, fault)
                        assert not day_of(0).is_at_limit(), (kind, fault)
                        FileBudgetStore(PATH).provision()
                        store = FileBudgetStore(PATH, provisioned=True)
                        assert store.load() is None, (kind, fault)
                        assert set(store.slots()) == {"empty"}, (kind, fault)

    def test_a_chip_whose_file_system_was_destroyed_while_it_was_new_works_or_denies() -> None:
        for kind in KINDS:
            for fault in [fault for fault in faults_of(kind) if spoils(kind, fault)]:
                for flash in provisioned_up_to_a_cut(kind, fault):
                    with flash:
                        tracker = day_of(0)
                        tracker.record({"total_tokens": 5})
                        denied = tracker.store_error is not None
                        assert tracker.is_at_limit() is denied, (kind, fault)
                    gc.collect()  # files left open are closed now: nothing more may reach the chip
                    with flash:
                        again = day_of(0)
                        assert denied or again.total_tokens == 5, (kind, fault)
