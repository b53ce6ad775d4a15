"""Every record ends handled or set aside, in order, and bugs in that are noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from sublet.decisions.session import failure_policy
from sublet.decisions.session.failure_policy import Answer, BatchState
from sublet.engine.calls import parallel, retry_loop
from sublet.protocol.records import UserRecord
from sublet.settings import Settings
from sublet.testing.simulation.run import Result

from tests.exploring import in_blocks
from tests.simulation.giving_up import LaterDestination, give_up
from tests.simulation.side_by_side import give_up_side_by_side


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("world", [give_up, give_up_side_by_side])
@pytest.mark.parametrize("seeds", in_blocks(range(40), size=5, few=1))
def test_every_record_ends_handled_or_set_aside(seeds: Sequence[int], world: Callable[[int], Result]) -> None:
    """The worlds drain: all records are finished or in the destination, and no checkpoint was ever ahead of that.

    More of them: `make simulate WORLDS=giving-up`, or `side-by-side`.
    """
    broken = {seed: found for seed in seeds if (found := world(seed).violation)}
    assert not broken, broken


@pytest.mark.timeout(300)
def test_a_checkpoint_before_setting_aside_is_noticed() -> None:
    found = next(found for seed in range(60) if (found := give_up(seed, LaterDestination).violation))
    assert "which no handler has finished" in found or "not drained" in found or "went on with" in found, found


@pytest.mark.timeout(300)
def test_a_bisect_that_swaps_halves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(course: BatchState, answer: Answer, settings: Settings) -> BatchState:
        after = failure_policy.after_call(course, answer, settings)
        if len(after.runs) <= len(course.runs):
            return after
        first, second, *following = after.runs
        return BatchState((second, first, *following), after.in_a_row)

    monkeypatch.setattr(retry_loop, "after_call", swapped)
    found = next(found for seed in range(60) if (found := give_up(seed).violation))
    assert "went on with" in found or "which no handler has finished" in found or "though the checkpoint" in found


@pytest.mark.timeout(300)
def test_parallel_keys_out_of_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are dealt to the lanes like cards, whatever their keys."""

    def dealt(records: Sequence[UserRecord], count: int) -> list[list[int]]:
        return [places for lane in range(count) if (places := list(range(lane, len(records), count)))]

    monkeypatch.setattr(parallel, "lanes_of", dealt)
    found = next(found for seed in range(60) if (found := give_up_side_by_side(seed).violation))
    assert found.split(": ")[1].startswith("key-"), found
