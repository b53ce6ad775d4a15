"""How worker items are packed into executions."""

from random import Random

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason, LeaseChoice
from sublet.decisions.manager.packing import MAP_ITEMS_MAX, executions, pack
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.settings import Settings

ONE_EACH = Settings(application="app", stream="stream", leases_per_worker=1)
SEVERAL = Settings(application="app", stream="stream")


@pytest.mark.parametrize(
    ("items", "sizes"),
    [(0, []), (1, [1]), (40, [40]), (41, [40, 1]), (100, [40, 40, 20])],
)
def test_an_execution_holds_no_more_items_than_run_at_once(items: int, sizes: list[int]) -> None:
    packed = pack([LeaseChoice(_lease(n), "us", ClaimReason.FREE) for n in range(items)], ONE_EACH, Random(7))
    started = executions(packed)
    assert [len(execution) for execution in started] == sizes
    assert [item for execution in started for item in execution] == list(packed)
    assert MAP_ITEMS_MAX == 40


def test_claim_is_fenced_by_the_row_that_was_read() -> None:
    lease = Lease("0", TRIM_HORIZON, lease_owner="bar", lease_counter=41)
    (item,) = pack([LeaseChoice(lease, "us", ClaimReason.EXPIRED)], ONE_EACH, Random(7))
    (claim,) = item.claims
    assert (claim.lease_key, claim.lease_owner, claim.lease_counter) == ("0", "bar", 41)
    assert claim.why is ClaimReason.EXPIRED


def test_item_ids_differ() -> None:
    packed = pack([LeaseChoice(_lease(n), "us", ClaimReason.FREE) for n in range(1_000)], ONE_EACH, Random(7))
    assert len({item.item_id for item in packed}) == 1_000


def _lease(number: int) -> Lease:
    return Lease(f"{number:04}", TRIM_HORIZON)


def test_a_lease_to_be_tried_alone_is_in_one_item_only() -> None:
    leases = [Lease(str(crashes), TRIM_HORIZON, crashes=crashes) for crashes in range(4)]
    packed = pack([LeaseChoice(lease, "us", ClaimReason.FREE) for lease in leases], SEVERAL, Random(7))
    assert [[claim.lease_key for claim in item.claims] for item in packed] == [["0", "1"], ["2"], ["3"]]


def test_an_item_grows_by_children_unless_it_must_not() -> None:
    choice = LeaseChoice(Lease("0", TRIM_HORIZON), "us", ClaimReason.FREE)
    assert [item.leases_max for item in pack([choice], SEVERAL, Random(7))] == [None]
    assert [item.leases_max for item in pack([choice], SEVERAL, Random(7), may_grow=False)] == [1]
