"""What owners report in their rows is true: where a row says that nothing waited at a time, nothing did; and
no row is longer than a write unit because of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sublet.protocol.conditions import Row
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import LAG, ROW_BYTES_MAX, bytes_of
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import MICROSECOND, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation

STAMPS_WRONG_TWICE = 2
"""A page's own lag is by approximate arrival times too."""

STEADY = frozenset({Fault.CLOCK_JUMP})
"""Left out: a moment of a clock that has jumped since says nothing about the world's time."""


@dataclass(slots=True)
class TrueReports:
    """One world's check. `reports`: how many there were, and how many of them said that nothing waited."""

    world: World
    reports: int = 0
    said_nothing_waits: int = 0

    def written(self, process: Process, write: LeaseWrite, _: Row | None) -> None:
        row = self.world.table.row(write.lease_key)
        lease = decode_row(row or {})
        if row is None or LAG not in write.sets or not isinstance(lease, Lease):
            return
        self.reports += 1
        if bytes_of(row) > ROW_BYTES_MAX:
            self.world.fail(f"{write.kind} of {write.lease_key} made a row of {bytes_of(row)} bytes")
        if lease.lag_report is not None:  # void: an operator has moved the row, and the owner does not know it yet
            self._check(process, lease, lease.lag_report)

    def _check(self, process: Process, lease: Lease, report: LagReport) -> None:
        if report.nothing_waited_at is None:
            return
        self.said_nothing_waits += 1
        world, truth = self.world, self.world.ledger.shards[lease.shard_id]
        ago = world.scheduler.now() + process.skew - report.at
        at = world.scheduler.now_us - (ago + STAMPS_WRONG_TWICE * world.shard_time.stamps_differ_by) // MICROSECOND
        waits = [
            index
            for index in range(truth.covered_by(lease.checkpoint), len(truth.places))
            if truth.is_required(index) and truth.arrivals[index] < at
        ]
        if waits:
            world.fail(f"{lease.lease_key} says that nothing waited, and its record {waits[0]} did")


def report_truly(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> tuple[Result, int]:
    """Run this seed's world to its end, or to the first broken invariant. And how many reports said that nothing
    waited.
    """
    found: list[TrueReports] = []

    def begin(world: World) -> None:
        found.append(TrueReports(world))
        world.watch.observers.append(found[0].written)

    wiring = replace(mutation, begin=begin)
    result = play(seed, is_recorded=is_recorded, wiring=wiring, without=STEADY)
    return result, found[0].said_nothing_waits
