"""Mistakes planted in the engine's own rules, each of the kind that a new fault or invariant is there for: it is noticed, as what
it is. Where `mutations` stand between a worker and its ports, these are in the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
from sublet.decisions import tick_plan
from sublet.decisions.liveness import Sighting
from sublet.engine import lease_session, tick
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.simulation.run import Result
from sublet.testing.simulation.sightings import SimSightingStore

from tests.simulation.simulation import simulate

WORLDS = 200
"""More than any of them ever took by far: a change of the code draws other worlds from the same seeds."""

ADAY = partial(simulate, days_off=1.0)


def _torn(self: SimSightingStore, sightings: Mapping[str, Sighting]) -> None:
    """As if moments and counters were written apart."""
    world = self._world
    stored = {key: sighting for chunk in world.sighting_chunks.values() for key, sighting in chunk.items()}
    world.sighting_chunks.clear()
    world.sighting_chunks[0] = {
        key: Sighting(new.lease_counter, new.lease_owner, stored.get(key, new).seen_at)
        for key, new in sightings.items()
    }
    world.step(self._process)
    world.sighting_chunks[0] = dict(sightings)


@dataclass(frozen=True)
class Planted:
    """`where`, `name`: what of the code is put in whose place."""

    where: object
    name: str
    by: object
    noticed_as: str
    world: Callable[[int], Result] = simulate


PLANTED = {
    "a gap is never told": Planted(lease_session, "may_have_lost", lambda *_: False, r"nobody is told", ADAY),
    "a gap is told wherever reading begins": Planted(
        lease_session,
        "may_have_lost",
        lambda *_: True,
        r"a data gap of \S+ is told, where nothing was trimmed$",
    ),
    "a stream is known by its name alone": Planted(
        StreamIdentity,
        "is_same_as",
        lambda ours, other: ours.arn == other.arn,
        r"though the stream is another one$|a tick on another stream is not refused$",
    ),
    "a lease is garbage when a listing lacks its shard": Planted(
        tick, "is_gone", lambda *_: True, r"a data gap of \S+ is told, where nothing was trimmed$"
    ),
    "counters and moments of sightings are written apart": Planted(
        SimSightingStore, "save", _torn, r"which wrote to it .* ago$"
    ),
    "who is under way is not known": Planted(
        tick_plan, "under_way", lambda *_: {}, r"is dispatched again after"
    ),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    monkeypatch.setattr(planted.where, planted.name, planted.by)
    for seed in range(WORLDS):
        violation = planted.world(seed).violation
        if violation is not None:
            assert re.search(planted.noticed_as, violation), f"seed {seed} broke otherwise: {violation}"
            return
    pytest.fail(f"nothing noticed in {WORLDS} worlds: {name}")
