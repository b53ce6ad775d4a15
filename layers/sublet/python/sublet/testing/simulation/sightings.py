"""The lease managers' memory, as each process of a world accesses it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec.structs import replace

from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN, DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableUnavailable
from sublet.ports import Remembered
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

CHUNK = 2
"""Leases per chunk; the real ones hold thousands."""


class SimSightingStore:
    """The SightingStore port of one process. Sightings are kept in chunks, as in the real store: a process that dies
    while it replaces them leaves a mix of new and old ones.
    """

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def load(self) -> Remembered:
        self._world.step(self._process)
        seen: dict[str, Sighting] = {}
        for chunk in self._world.sighting_chunks.values():
            for lease_key, sighting in chunk.items():
                seen[lease_key] = max(seen.get(lease_key, sighting), sighting, key=_newest)
        return replace(self._world.sightings.load(), sightings=seen)

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        """Saves new chunks first, then removes those beyond the new list."""
        self._writes("sightings")
        chunks, stored = _chunks(sightings), self._world.sighting_chunks
        for number, chunk in enumerate(chunks):
            self._step()
            stored[number] = chunk
        for number in [number for number in stored if number >= len(chunks)]:
            self._step()
            stored.pop(number, None)
        self._world.step(self._process)

    def _step(self) -> None:
        """One request of a save: its process may die before it, more often than elsewhere."""
        if self._world.strikes(Fault.SAVE_CUT_SHORT):
            self._world.note(self._process.name, "dies while it saves its sightings")
            self._world.scheduler.kill(self._process)
        self._world.step(self._process)

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        self._world.step(self._process)
        self._writes("the stream's identity")
        return self._world.sightings.adopt(stream, instead_of)

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        """Begins to describe. The reply may be lost although this succeeds; the others then wait for a description in
        vain.
        """
        self._world.step(self._process)
        is_ours = self._world.sightings.begin_describing(now, seen)
        if self._world.strikes(Fault.LOST_RESPONSE):
            raise LeaseTableUnavailable("no answer to begin_describing")
        self._world.step(self._process)
        return is_ours

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        self._world.step(self._process)
        self._world.sightings.keep_placement(placement, asked_at)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        self._world.step(self._process)
        self._world.sightings.keep_streams(streams)

    def forget_stream(self, stream: StreamKey) -> None:
        self._world.step(self._process)
        self._world.sightings.forget_stream(stream)

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        self._world.step(self._process)
        self._writes("the definition")
        return self._world.sightings.define(definition, instead_of)

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        world = self._world
        world.step(self._process)
        self._writes("the dispatches")
        is_kept = world.sightings.keep_dispatched(dispatched, seen_round)
        if is_kept:
            self._check_dispatched(dispatched)
        if world.strikes(Fault.LOST_RESPONSE):
            raise LeaseTableUnavailable("no answer to keep_dispatched")
        world.step(self._process)
        return is_kept

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        self._world.step(self._process)
        self._writes("the unread shards")
        self._world.sightings.keep_unread(unread)

    def _writes(self, what: str) -> None:
        self._world.check_may_write(self._process, f"a write of {what}")

    def _check_dispatched(self, dispatched: Mapping[str, DispatchedWorker]) -> None:
        world = self._world
        for lease_key, sent in dispatched.items():
            before = world.dispatched.get(lease_key, sent)
            if before.seen == sent.seen and before.at < sent.at < before.at + WORKER_STARTS_WITHIN:
                world.fail(f"{lease_key} is dispatched again after {sent.at - before.at}, as it was")
            world.dispatched[lease_key] = sent

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        """Announces. The request may be lost, or its reply although it succeeds."""
        world = self._world
        world.step(self._process)
        if world.strikes(Fault.LOST_REQUEST):
            raise LeaseTableUnavailable("could not announce")
        world.sightings.announce(worker_id, said, lapsed)
        world.step(self._process)

    def begin_prompted(self, token: str, now: datetime) -> bool:
        """Two requests: a process that dies after the first has not informed the other tick."""
        for _ in range(2):
            self._world.step(self._process)
        begins = self._world.sightings.begin_prompted(token, now)
        self._world.step(self._process)
        return begins

    def end_prompted(self, token: str) -> bool:
        self._world.step(self._process)
        looks_again = self._world.sightings.end_prompted(token)
        self._world.step(self._process)
        return looks_again


def _chunks(sightings: Mapping[str, Sighting]) -> list[dict[str, Sighting]]:
    items = sorted(sightings.items())
    return [dict(items[first : first + CHUNK]) for first in range(0, len(items), CHUNK)]


def _newest(sighting: Sighting) -> tuple[int, datetime]:
    return (sighting.lease_counter, sighting.seen_at)
