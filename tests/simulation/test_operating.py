"""An operator at work under our fleet and Java's: everything wanted is handled, a skip keeps what it skips, an undo is exact, and
a pause and a drain are obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from sublet.decisions.skip import SkipPlan, plan_skip
from sublet.engine.worker.upkeep import Upkeep
from sublet.operate import pausing, planned_seek, seek, skip
from sublet.protocol.lease import Lease
from sublet.protocol.records import UserRecord
from sublet.protocol.shard import Shard

from tests.simulation.operating import operate_in

SEEDS = range(4)
"""`make simulate WORLDS=operating` draws new ones."""


def test_whatever_an_operator_does() -> None:
    broken = {seed: found for seed in SEEDS if (found := operate_in(seed).violation)}
    assert not broken, broken


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
