"""An operator at work under our fleet and Java's: everything wanted is handled, a skip keeps what it skips, an undo is
exact, and a pause and a drain are obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pytest
from sublet.engine.worker.upkeep import Upkeep
from sublet.operate import pausing
from sublet.operate.peek import ShardAsHandled, upcoming
from sublet.operate.positions import planned_seek, seek, skip
from sublet.operate.rules import seek as decisions_seek
from sublet.operate.rules.skip import SkipPlan, plan_skip
from sublet.protocol.lease import Lease, Position
from sublet.protocol.records import UserRecord
from sublet.protocol.shard import Shard

from tests.simulation.operating import operate_in, operate_on_forms_in, operate_on_lineages_in

SEEDS = range(4)
"""`make simulate WORLDS=operating` draws new ones."""


def test_simulation_holds_its_promises_whatever_an_operator_does() -> None:
    broken = {seed: found for seed in SEEDS if (found := operate_in(seed).violation)}
    assert not broken, broken


LINEAGES = (11, 14, 30)
"""Seeks across three generations and more, behind rows that were cleaned up. `make simulate WORLDS=lineages` draws new
ones.
"""


def test_an_operator_moves_whole_lineages_and_each_shard_waits_for_all_its_ancestors() -> None:
    broken = {seed: found for seed in LINEAGES if (found := operate_on_lineages_in(seed).violation)}
    assert not broken, broken


@pytest.mark.slow
def test_a_generation_without_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan without those rows that only the shards after them need."""
    with_all = decisions_seek._with_their_lineage

    def without(
        listed: Sequence[Shard],
        rows: AbstractSet[str],
        unread: AbstractSet[str],
        unread_then: AbstractSet[str],
        then: Mapping[str, Position],
    ) -> Mapping[str, Position]:
        waits = {shard.shard_id for shard in listed if not unread_then.isdisjoint(shard.parent_shard_ids)}
        whole = with_all(listed, rows, unread, unread_then, then)
        return {shard_id: to for shard_id, to in whole.items() if shard_id in rows or shard_id not in waits}

    monkeypatch.setattr(decisions_seek, "_with_their_lineage", without)
    assert any("begun while its ancestor" in (operate_on_lineages_in(seed).violation or "") for seed in (30, 44))


def is_noticed(seeds: Iterable[int], what: str) -> bool:
    return any(what in (operate_in(seed).violation or "") for seed in seeds)


@pytest.mark.slow
def test_a_worker_that_does_not_obey_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upkeep, "obey", lambda _: None)
    assert is_noticed(range(20), "after it was paused")


@pytest.mark.slow
def test_a_drain_that_does_not_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "unreleased", lambda *_: ())
    monkeypatch.setattr(pausing, "is_settled", lambda *_: True)
    assert is_noticed(range(7, 60), "drained, while")


@pytest.mark.slow
def test_a_skip_past_a_record_that_was_not_set_aside_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_first(
        shard: Shard, lease: Lease, upcoming: Iterable[UserRecord], wanted: int, *, as_put: bool
    ) -> SkipPlan:
        plan = plan_skip(shard, lease, upcoming, wanted, as_put=as_put)
        return replace(plan, records=plan.records[1:] or plan.records)

    monkeypatch.setattr(skip, "plan_skip", without_the_first)
    assert is_noticed(range(60), "no destination has it")


@pytest.mark.slow
def test_a_plan_that_is_carried_out_behind_a_colleague_s_seek_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seek, "why_not", lambda *_, **__: "")
    monkeypatch.setattr(planned_seek, "newer_seeks", lambda *_: ())
    assert is_noticed(range(20), "was carried out after a colleague's seek")


FORMS = range(6)
"""`make simulate WORLDS=forms` draws new ones."""


def test_skip_counts_filtered_records_and_whole_aggregates_as_the_handler_gets_them() -> None:
    broken = {seed: found for seed in FORMS if (found := operate_on_forms_in(seed).violation)}
    assert not broken, broken


@pytest.mark.slow
def test_simulation_notices_a_skip_of_records_that_no_handler_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlike_a_handler(*known: Any, as_handled: ShardAsHandled | None) -> Iterator[UserRecord]:
        return upcoming(*known)

    monkeypatch.setattr(skip, "upcoming", unlike_a_handler)
    assert any("which no handler gets so" in (operate_on_forms_in(seed).violation or "") for seed in range(30))


@pytest.mark.slow
def test_an_operator_whose_pauses_go_by_their_own_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_by_the_store", lambda _, clock: clock.now())
    assert is_noticed(range(20), "after it was paused")
