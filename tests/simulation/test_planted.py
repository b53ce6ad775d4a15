"""Bugs planted in the engine's own rules, one for each fault or invariant, are noticed for what they are. (`mutations`
are between a worker and its ports instead.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.decisions.manager import packing, tick_plan
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.probe import Probe, ProbeResult
from sublet.decisions.session import crash_caution, quiet
from sublet.decisions.session.crash_caution import CrashCaution
from sublet.decisions.session.record_filter import Faults, FilteredRecords, RecordFilter
from sublet.engine.calls import call_limits
from sublet.engine.manager import tick
from sublet.engine.manager.quiet_probing import QuietProbing
from sublet.engine.session import gap_watch
from sublet.engine.session import records as record_making
from sublet.engine.worker import acquire
from sublet.protocol.lease import Lease
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_identity import StreamIdentity
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.sightings import SimSightingStore

from tests.exploring import first
from tests.simulation.bad_neighbour import beside_a_bad_one
from tests.simulation.giving_up import give_up
from tests.simulation.mutations import UNCHANGED
from tests.simulation.noticed import assert_noticed
from tests.simulation.simulation import draw_java, simulate
from tests.simulation.staying_quiet import stay_quiet

WORLDS = 120
"""Twice as many as any has needed (67): a change of the code draws other worlds from the same seeds."""


@dataclass(frozen=True)
class Planted:
    """`by` replaces `name` in `where`."""

    where: tuple[object, ...]
    name: str
    by: object
    noticed_as: str
    world: Callable[[int], Result] = simulate


def saved_apart(store: SimSightingStore, sightings: Mapping[str, Sighting]) -> None:
    """First the counters, then the times."""
    before = {key: seen for chunk in store._world.sighting_chunks.values() for key, seen in chunk.items()}
    known = {key: replace(seen, seen_at=before.get(key, seen).seen_at) for key, seen in sightings.items()}
    for halves in (known, sightings):
        SAVED_AT_ONCE(store, halves)


SAVED_AT_ONCE = SimSightingStore.save


def raising_on_content(of: RecordFilter, records: Sequence[UserRecord], _: Faults) -> FilteredRecords:
    return FilteredRecords([record for record in records if of._wants(record)], {})


BEFORE_ITS_TURN = (
    r"which no handler has finished$|though the checkpoint covers|with unhandled records$|unhandled records'\]$"
)
AGAIN = r"though the checkpoint covered \d+ when it acquired$|after having finished those before"
idle = partial(simulate, idle=True)
visited = partial(play, wiring=UNCHANGED, neighbours=draw_java, idle=True, quiet_visit_interval=timedelta(0))
"""Idle, and a worker opens each shard again and again, as no tick asks the shard first."""


unhandled = r"unhandled records'\]$|woke and was not handled within"


def whatever_the_position(of: QuietProbing, leases: Iterable[Lease], *known: Any) -> Mapping[str, Probe]:
    """Goes on where the last look ended, also if the checkpoint has been moved since."""
    leases = tuple(leases)
    for lease in leases:
        if (kept := of._kept.get(lease.lease_key)) is not None:
            last = kept.last._replace(probe=replace(kept.last.probe, lease=lease))
            of._kept[lease.lease_key] = dataclasses.replace(kept, last=last)
    return ASKED(of, leases, *known)


ASKED = QuietProbing.ask


PLANTED = {
    "a shard is quiet though its page lags": Planted(
        (Probe,),
        "needs_no_worker",
        property(lambda look: look.waiting is None and look.walked.until is not None and not look.is_ended),
        unhandled,
        stay_quiet,
    ),
    "an ended shard is quiet": Planted(
        (Probe,),
        "needs_no_worker",
        property(lambda look: look.answer is ProbeResult.QUIET),
        r"is not ended'|unhandled records'",
        stay_quiet,
    ),
    "an empty page is at the tip": Planted(
        (quiet,), "reached_by", lambda page: page.answered_at, BEFORE_ITS_TURN, idle
    ),
    "arrival times are right and rise": Planted((quiet,), "ARRIVALS_DIFFER_BY", timedelta(0), BEFORE_ITS_TURN, visited),
    "what a moment brings is all new": Planted(
        (record_making,), "not_yet_handled", lambda records, _: records, AGAIN, idle
    ),
    "a moment is believed beyond retention": Planted(
        (gap_watch.GapWatch,),
        "_begins_whole",
        lambda _: True,
        r"no loss is reported",
        partial(simulate, days_off=1.0),
    ),
    "counters and moments of sightings are written apart": Planted(
        (SimSightingStore,), "save", saved_apart, r"which wrote to it .* ago$"
    ),
    "a gap is never told": Planted(
        (gap_watch,),
        "may_have_lost",
        lambda *_: False,
        r"no loss is reported",
        partial(simulate, days_off=1.0),
    ),
    "a gap is told wherever reading begins": Planted(
        (gap_watch,),
        "may_have_lost",
        lambda *_: True,
        r"a data gap of \S+ is reported, but nothing was trimmed$",
    ),
    "a stream is known by its name alone": Planted(
        (StreamIdentity,),
        "is_same_as",
        lambda ours, other: ours.arn == other.arn,
        r"though the stream is another one$|a tick on another stream is not refused$",
    ),
    "a lease is garbage when a listing lacks its shard": Planted(
        (tick,), "is_gone", lambda *_: True, r"a data gap of \S+ is reported, but nothing was trimmed$"
    ),
    "who is under way is not known": Planted((tick_plan,), "under_way", lambda *_: {}, r"is dispatched again after"),
    "a crash teaches nothing": Planted(
        (packing, crash_caution, acquire),
        "caution",
        lambda _: CrashCaution.NONE,
        r"s behind, beside a bad one",
        partial(beside_a_bad_one, way="exits"),
    ),
    "what a record holds ends its window": Planted(
        (RecordFilter,), "wanted", raising_on_content, r"raised RecursionError", give_up
    ),
    "a call may hang for ever": Planted(
        (call_limits,),
        "overdue_at",
        lambda *_: None,
        r"s behind, beside a bad one|does not end$",
        partial(beside_a_bad_one, way="hangs"),
    ),
    "what was proved counts whatever the checkpoint": Planted(
        (QuietProbing,), "ask", whatever_the_position, unhandled, stay_quiet
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", first(2, PLANTED))
def test_simulation_notices_a_planted_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    for where in planted.where:
        monkeypatch.setattr(where, planted.name, planted.by)
    assert_noticed(planted.world, planted.noticed_as, WORLDS, name)
