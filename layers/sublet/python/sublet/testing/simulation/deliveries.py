"""A user's handler in many worlds: what came to it, in what order, and what came more than once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from sublet.handler import HandlesBatches, UserHandler
from sublet.protocol.records import UserRecord
from sublet.settings import setting_values

if TYPE_CHECKING:
    from sublet.settings.keywords import AnyKeywords

SHOWN_MAX = 10
"""Repeated records that a report tells of, of one seed."""


class SimulationFailed(AssertionError):
    """A world did not end well. Its seed is in the text; what the handler raised last, if it did, is its cause."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One record in one call of the handler."""

    seconds: float
    """Since the world began."""
    worker: str
    """Which invocation: another one's memory is not this one's."""
    shard_id: str
    record: UserRecord
    is_finished: bool
    """Whether the call got to say that the record is done. If not, it crashed or failed, and the record comes again."""


@dataclass(frozen=True)
class SimulatedRun:
    """One seed's world, from its first record to its last."""

    seed: int
    records: int
    deliveries: tuple[Delivery, ...]
    """In the order of the calls."""
    faults: Mapping[str, int]
    history: tuple[str, ...]
    """Each step of it, if there is only this one seed."""

    @cached_property
    def repeated(self) -> tuple[tuple[Delivery, ...], ...]:
        """The deliveries of each record that came more than once, in their order; records in the order of their first."""
        of_record: dict[tuple[str, str, int], list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            record = delivery.record
            of_record[delivery.shard_id, record.sequence_number, record.sub_sequence_number].append(delivery)
        return tuple(tuple(several) for several in of_record.values() if len(several) > 1)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.repeated)} of {self.records} records came more than once"]
        for several in self.repeated[:SHOWN_MAX]:
            record, ways = several[0].record, " | ".join(map(_told, several))
            lines.append(f"  {several[0].shard_id} {record.checkpoint} {record.data[:40]!r}: {ways}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Simulation:
    """All of them."""

    runs: tuple[SimulatedRun, ...]

    @property
    def repeating(self) -> tuple[SimulatedRun, ...]:
        """Those in which any record came more than once."""
        return tuple(run for run in self.runs if run.repeated)

    def __str__(self) -> str:
        """Which seed shows it best: the one with the fewest repeated records is the easiest to read."""
        records, repeated = (
            sum(run.records for run in self.runs),
            sum(len(run.repeated) for run in self.runs),
        )
        said = f"{len(self.runs)} seeds, {records} records, {repeated} of them more than once, in {len(self.repeating)} seeds"
        best = min(self.repeating, key=lambda run: len(run.repeated), default=None)
        return said if best is None else f"{said}\n{best}"


def simulate(
    handler: UserHandler | type[HandlesBatches],
    seeds: int | Iterable[int] = 100,
    *,
    data: Callable[[int], bytes] = lambda number: f"{number}".encode(),
    check: Callable[[SimulatedRun], object] = lambda _: None,
    **settings: Unpack[AnyKeywords],
) -> Simulation:
    """Run the handler in `seeds` worlds, in which workers crash, stand still and lose replies, and shards split and merge.

    handler    as for `consume`. A class is instantiated anew for each worker process, as its memory dies with it (a record
               processor's for each lease); anything else is shared by all processes of a world, as a database is
    seeds      how many, from 0 on, or which. The same seed is the same world, call for call
    data       the number-th record's data: 0, 1, 2, ... in the order of their puts
    check      called after each world, when every record has been handled: raise what is wrong with your results (or return
               False), and forget them
    settings   any of Settings, by name; what is not given is drawn from the seed

    Raises HandlerNotLoadable for what is no handler, and SimulationFailed if a world does not end: mostly since the handler
    fails for ever; or where it checkpoints in another thread, as coroutines do. What `check` raises gets a note that tells
    the seed.
    """
    from sublet.testing.simulation.handler_world import play_handler  # which needs greenlet

    given = setting_values(settings)
    chosen = tuple(range(seeds) if isinstance(seeds, int) else seeds)
    if not chosen:
        raise ValueError(f"seeds={seeds!r}: in no world nothing is tested")
    runs = []
    for seed in chosen:
        run = play_handler(handler, seed, data, given, is_recorded=len(chosen) == 1)
        try:
            _judge(check, run)
        except BaseException as wrong:
            wrong.add_note(f"seed {seed}; the same world again: simulate(handler, seeds=[{seed}])")
            raise
        runs.append(run)
    return Simulation(tuple(runs))


def _judge(check: Callable[[SimulatedRun], object], run: SimulatedRun) -> None:
    if check(run) is False:
        raise AssertionError("check returned False")


def _told(delivery: Delivery) -> str:
    return f"{delivery.seconds:.1f} s {delivery.worker}{'' if delivery.is_finished else ' (not finished)'}"
