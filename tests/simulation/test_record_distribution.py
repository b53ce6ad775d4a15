"""Worlds whose stream places records itself for a while. A shard holds aggregates of both kinds, and none that the
stream has placed may be dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import pytest
from sublet.decisions.session import out_of_range_aggregates
from sublet.decisions.session.out_of_range_aggregates import KeptBecause
from sublet.engine import process_shared
from sublet.protocol.stream_info import Placement
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.weather import Fault

from tests.exploring import first, in_blocks


def switched(seed: int, *, is_recorded: bool = False) -> Result:
    """The stack is never destroyed: that the stream has placed records itself is remembered in a table that goes with
    it.
    """
    switches = Random(seed).choice((1, 2, 3))
    return play(seed, is_recorded=is_recorded, switches=switches, without=frozenset({Fault.DESTROYED}))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeds", in_blocks(range(24), size=6, few=2))
def test_records_placed_by_kinesis_are_never_lost(seeds: Sequence[int]) -> None:
    broken = {seed: found for seed in seeds if (found := switched(seed).violation)}
    assert not broken, broken


RULE = out_of_range_aggregates.why_kept


def but(*ignored: KeptBecause) -> Callable[..., KeptBecause | None]:
    def rule(*known: object) -> KeptBecause | None:
        why = RULE(*known)  # type: ignore[arg-type]
        return None if why in ignored else why

    return rule


PLANTED: dict[str, tuple[object, str, object]] = {
    "dropped as KCL does": (process_shared.StrayAggregates, "may_drop", lambda *_: True),
    "what was AUTO is forgotten": (process_shared, "why_kept", but(KeptBecause.WAS_AUTO)),
    "what the lease manager has seen is not passed on": (Placement, "with_auto_seen", lambda known, _: known),
    "an old description speaks of younger records": (
        process_shared,
        "why_kept",
        but(KeptBecause.NOT_DESCRIBED),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", first(1, PLANTED))
def test_simulation_notices_a_planted_fault_of_record_distribution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, by = PLANTED[name]
    monkeypatch.setattr(where, attribute, by)
    for seed in range(60):
        violation = switched(seed).violation
        if violation is not None:
            assert re.search("checkpoint|never|drained|covers|went on with|not of this shard", violation), (
                f"seed {seed} broke otherwise: {violation}"
            )
            return
    pytest.fail(f"nothing noticed in 60 worlds: {name}")
