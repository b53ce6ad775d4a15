"""Runs a user's handler in many worlds, and reports which records it got, in what order, and which ones more than
once.
"""

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
"""The most repeated records that a report of one seed lists."""


class SimulationFailed(AssertionError):
    """A world did not end well. The text has its seed; the cause is the handler's last exception, if there was one."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One record in one call of the handler."""

    seconds: float
    """The time since the world began."""
    worker: str
    """The invocation: each has its own memory."""
    shard_id: str
    record: UserRecord
    is_finished: bool
    """Whether the call reported the record as done. If not, it crashed or failed, and the record is delivered again."""


@dataclass(frozen=True)
class SimulatedRun:
    """One seed's world, from its first record to its last."""

    seed: int
    records: int
    deliveries: tuple[Delivery, ...]
    """Every delivery, in the order of the calls."""
    faults: Mapping[str, int]
    history: tuple[str, ...]
    """Every step, but only if `simulate` ran a single seed."""

    @cached_property
    def repeated(self) -> tuple[tuple[Delivery, ...], ...]:
        """The deliveries of each record that was delivered more than once, in order; records in the order of their
        first.
        """
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
    """The result of all seeds."""

    runs: tuple[SimulatedRun, ...]

    @property
    def repeating(self) -> tuple[SimulatedRun, ...]:
        """The runs in which a record was delivered more than once."""
        return tuple(run for run in self.runs if run.repeated)

    def __str__(self) -> str:
        """Includes the seed with the fewest repeated records, since it is the easiest to read."""
        records, repeated = (
            sum(run.records for run in self.runs),
            sum(len(run.repeated) for run in self.runs),
        )
        said = (
            f"{len(self.runs)} seeds, {records} records, {repeated} of them more than once, in "
            f"{len(self.repeating)} seeds"
        )
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
    """Run the handler in `seeds` worlds, in which workers crash, pause and lose replies, and shards split and merge.

    handler   as for `consume`. A class is instantiated for each worker process, whose memory dies with it (a record
              processor for each lease). Anything else is shared by all processes of a world, like a database
    seeds     how many, from 0 on, or which. The same seed is the same world, call for call
    data      the n-th record's data: 0, 1, 2, ... in the order of their puts
    check     called after each world, once every record has been handled. It raises, or returns False, if your results
              are wrong, and resets them
    settings  any of Settings, by name; the others are drawn from the seed

    Raises HandlerNotLoadable if it is not a handler. Raises SimulationFailed if a world does not end, mostly because
    the handler fails for ever, or if the handler checkpoints in another thread, as coroutines do. An exception of
    `check` gets a note with the seed.
    """
    from sublet.testing.simulation.handler_world import play_handler  # needs greenlet

    given = setting_values(settings)
    chosen = tuple(range(seeds) if isinstance(seeds, int) else seeds)
    if not chosen:
        raise ValueError(f"seeds={seeds!r}: without a world nothing is tested")
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
