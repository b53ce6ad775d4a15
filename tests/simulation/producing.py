"""Worlds into which `sublet.Producer` puts while a fleet consumes: refusals, of records and of whole calls, lost
requests and answers, credentials that go and return, reshards, listings that fail or lag, processes that stand still,
die, or end with a flush and a close, of which some are left by an exception and made again at the exit.

What a producer promises is judged by what the fleet's handlers get: what it has acknowledged is handled; each key's
records are handled for the first time in the order of their puts, through reshards; none is stored twice without a lost
answer; a flush and a close return when the program knows what came of each record; a record that no stream takes is
given up alone, and what passes gives nothing up before its time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random

from sublet.decisions.putting.outbox import ProducerRules
from sublet.decisions.putting.producing import SettledRecords
from sublet.errors import AwsNotConfigured, RecordRefused, StreamAccessDenied
from sublet.ports import RecordWriter, Signal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import NewRecord, PutRefused, StreamRecord, UserRecord
from sublet.protocol.stream_info import PutRecord
from sublet.putting.loop import ProducerPorts, PuttingLoop
from sublet.putting.placing_source import PlacingSource
from sublet.settings import StartKind, StartPosition
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.ports import SimLog, SimStream
from sublet.testing.simulation.run import CALM_FROM, Result, play
from sublet.testing.simulation.scheduler import (
    SECOND,
    Process,
    SimSignal,
    SimTasks,
    SkewedClock,
)
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

ENDS_AT = int(0.6 * CALM_FROM)
"""When the programs put no more: a pause and the producer's patience later they have closed, before the world is
judged.
"""

KEYS = 12

NO_ANSWER = PutRefused("NoAnswer", "the answer was lost", passes=True)
THROTTLED = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)

OUT_OF_PLACE = frozenset({Fault.CHECKPOINT_MOVED})
"""When an operator moves a position, records are handled out of order, and the producer is not to blame."""

BAD_SHARE = 0.004
BAD = b"bad"
"""Ends the data of a record that no stream takes: a call is refused if it puts one by itself, or first in an
aggregate.
"""

AWAY = AwsNotConfigured("there are no AWS credentials")

Mistake = Callable[[RecordWriter], RecordWriter]


@dataclass
class Put:
    """What the programs of a world have put, and the results. Records are known by their data."""

    world: World
    chance: Random
    numbers: Counter[str] = field(default_factory=Counter)
    stored: Counter[bytes] = field(default_factory=Counter)
    """How often each can be read by a consumer."""
    unanswered: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    given_up: set[bytes] = field(default_factory=set)
    contents: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """By shard and index, as the ledger knows records."""
    handled: set[bytes] = field(default_factory=set)
    latest: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By key, the highest number that was handled."""
    open: set[Process] = field(default_factory=set)
    """Programs that have not closed their producer."""

    def next_record(self, name: str) -> tuple[str, bytes]:
        key = f"{name}-{self.chance.randrange(KEYS)}"
        self.numbers[key] += 1
        data = f"{key}:{self.numbers[key]}:".encode()
        data = data.ljust(self.chance.choice((20, 120, 400)), b".")
        return key, data + BAD if self.chance.random() < BAD_SHARE else data

    def store(self, record: NewRecord) -> tuple[PutRecord, Sequence[bytes]]:
        """In the stream, and in the ledger what a consumer gets of it, which is the second value: all but strays."""
        world = self.world
        explicit = None if record.explicit_hash_key is None else int(record.explicit_hash_key)
        at = world.stream.put_record(record.partition_key, record.data, explicit)
        log = next(log for log in world.stream.logs if log.shard_id == at.shard_id)
        assert log.newest is not None, "it has just been put"
        truth, now = world.ledger.shards[at.shard_id], world.scheduler.now_us
        stamp = now + (log.newest.approximate_arrival_timestamp - world.scheduler.now()) // timedelta(microseconds=1)
        inside = deaggregate((log.newest,), KeysInside(log.hash_key_range)).user_records
        by_place = {user_record.sub_sequence_number: user_record for user_record in inside}
        for user_record in deaggregate((log.newest,), None).user_records:
            sub = user_record.sub_sequence_number
            if sub in by_place:
                self._note(at.shard_id, user_record, len(truth.places))
            truth.put((int(at.sequence_number), sub), now, stamp, is_stray=sub not in by_place)
        return at, [user_record.data for user_record in inside]

    def _note(self, shard_id: str, record: UserRecord, index: int) -> None:
        self.contents[shard_id, index] = record.data
        self.stored[record.data] += 1
        if self.stored[record.data] > 1 and not (record.data in self.unanswered or self._is_list_denied):
            self.world.fail(f"{record.data!r} is stored twice, though no answer was lost")

    @property
    def _is_list_denied(self) -> bool:
        """Then it is not known what a stray aggregate's shard covers, and it is sent again whole."""
        return any(isinstance(odd, StreamAccessDenied) for odd in self.world.odd_errors)

    def see_handled(self, shard_id: str, index: int) -> None:
        """An observer of the ledger."""
        data = self.contents.get((shard_id, index))
        if data is None or data in self.handled:
            return
        key, number, _ = data.decode().split(":")
        self.handled.add(data)
        if int(number) < self.latest[key]:
            self.world.fail(f"{key}: {number} is handled for the first time after {self.latest[key]}")
        self.latest[key] = int(number)

    def tell(self, has_worked: Callable[[], bool], settled: Sequence[SettledRecords]) -> None:
        for some in settled:
            known = self.acknowledged if isinstance(some.outcome, PutRecord) else self.given_up
            if some.outcome is AWAY and has_worked():
                self.world.fail("records are given up at once for credentials that return")
            for record in some.user_records:
                known.add(record.data)
                if isinstance(some.outcome, RecordRefused) and not record.data.endswith(BAD):
                    self.world.fail(f"{record.data!r} is given up for another record of its call")
                if known is self.acknowledged and not self.stored[record.data]:
                    self.world.fail(f"{record.data!r} is acknowledged, and no consumer can read it")

    def left(self, _: World) -> str | None:
        """At the end of the world."""
        if unhandled := sorted(self.acknowledged - self.handled):
            return f"{len(unhandled)} acknowledged records were not handled, {unhandled[0]!r} first"
        if closing := [process.name for process in self.open if not process.is_dead]:
            return f"the producers of {closing} do not close"
        return None


@dataclass(frozen=True, slots=True)
class SimWriter:
    """The RecordWriter port of one process: a PutRecords whose records are refused one by one, or whose answer is
    lost.
    """

    put_records: Put
    process: Process
    refuses: float
    loses: float
    away: list[tuple[int, int]] = field(default_factory=list)
    """When it has no credentials."""

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        world, chance = self.put_records.world, self.put_records.chance
        world.step(self.process)
        if any(begin <= world.scheduler.now_us < end for begin, end in self.away):
            raise AWAY
        if self._strikes(self.loses / 2):
            return [NO_ANSWER] * len(records)
        if any(self._is_bad(record) for record in records):
            raise RecordRefused("Kinesis refuses the call")
        stored: list[bytes] = []
        answers = [self._put(record, stored) for record in records]
        is_lost = self._strikes(self.loses)
        if is_lost:
            self.put_records.unanswered.update(stored)
            world.scheduler.sleep(int(chance.uniform(0, 10) * SECOND))
        world.step(self.process)
        return [NO_ANSWER] * len(records) if is_lost else answers

    def _is_bad(self, record: NewRecord) -> bool:
        """Of an aggregate, Kinesis sees the first record's key."""
        return (
            deaggregate([StreamRecord("1", record.data, record.partition_key)], None).user_records[0].data.endswith(BAD)
        )

    def _put(self, record: NewRecord, stored: list[bytes]) -> PutRecord | PutRefused:
        if self._strikes(self.refuses):
            return THROTTLED
        at, data = self.put_records.store(record)
        stored += data
        return at

    def _strikes(self, rate: float) -> bool:
        return self.put_records.world.has_faults and self.put_records.chance.random() < rate


@dataclass(frozen=True, slots=True)
class Program:
    """Puts as long as it lives; when its process dies or ends, another begins where it was."""

    name: str
    put: Put
    rules: ProducerRules
    refuses: float
    loses: float
    mistake: Mistake

    def start(self) -> None:
        self.put.world.at(0, f"program {self.name}", self._run)

    def _run(self) -> None:
        world, number = self.put.world, 0
        while world.scheduler.now_us < ENDS_AT:
            number += 1
            process = world.process(f"{self.name}/{number}")
            over = SimSignal(world.scheduler)
            process.on_death.append(over.set)
            self.put.open.add(process)
            world.scheduler.spawn(process, lambda process=process, over=over: self._live(process, over))  # type: ignore[misc]
            while not over.wait(timedelta(minutes=1)):
                pass

    def _live(self, process: Process, over: Signal) -> None:
        put, chance, mine = self.put, self.put.chance, set[bytes]()
        world, loop = put.world, self._loop(process)
        for _ in range(chance.randint(3, 40)):
            for _ in range(chance.choice((1, 1, 3, 20))):
                key, data = put.next_record(self.name)
                mine.add(data)
                while (room := loop.offer(data, key, None, data)) is not None:
                    room.wait(timedelta(minutes=1))
            if chance.random() < 0.3:
                self._wait("flush", loop.flush(), mine)
            world.scheduler.sleep(int(chance.expovariate(1 / 2) * SECOND))
            if world.scheduler.now_us >= ENDS_AT:
                break
        if chance.random() < 0.3:  # left by SystemExit or Ctrl-C: what Python's exit runs closes it again
            loop.close()
            world.scheduler.sleep(int(chance.uniform(0, 0.2) * SECOND))
        self._wait("close", loop.close(), mine)
        put.open.discard(process)
        over.set()

    def _wait(self, what: str, done: Signal, mine: set[bytes]) -> None:
        while not done.wait(timedelta(minutes=1)):
            pass
        if not_known := mine - self.put.acknowledged - self.put.given_up:
            self.put.world.fail(f"{what} returns, and it is not known what came of {len(not_known)} records")

    def _loop(self, process: Process) -> PuttingLoop:
        world = self.put.world
        clock, log = SkewedClock(world.scheduler, process), SimLog(world, process)
        source = PlacingSource(SimStream(world, process), clock, log)
        real = SimWriter(self.put, process, self.refuses, self.loses, self._away())
        writer = self.mistake(real)
        tasks = SimTasks(world.scheduler, process)
        loop: PuttingLoop = PuttingLoop(
            self.rules,
            ProducerPorts(writer, source, clock, tasks, self.put.chance, log),
            partial(self.put.tell, lambda: loop.produced.user_records > 0),
        )
        return loop

    def _away(self) -> list[tuple[int, int]]:
        """When this process' credentials are away, for some seconds each."""
        now, chance = self.put.world.scheduler.now_us, self.put.chance
        if not self.put.world.has_faults or chance.random() < 0.5:
            return []
        begins = (now + int(chance.uniform(0, 60) * SECOND) for _ in range(chance.randint(1, 3)))
        return [(begin, begin + int(chance.uniform(0, 40) * SECOND)) for begin in begins]


def draw_rules(chance: Random) -> ProducerRules:
    return ProducerRules(
        aggregation_enabled=chance.random() < 0.8,
        aggregation_max_size=chance.choice((600, 3_000, 51_200)),
        record_max_buffered_time=timedelta(milliseconds=chance.choice((0, 100, 1_000))),
        rate_limit=chance.choice((None, 1.0)),
        patience=timedelta(seconds=chance.choice((5, 30))),
        max_connections=chance.choice((1, 2, 8)),
        max_buffered_bytes=chance.choice((2_000, 64 * 2**20)),
    )


def produce(
    seed: int,
    *,
    is_recorded: bool = False,
    mistake: Mistake = lambda real: real,
    change_rules: Callable[[ProducerRules], ProducerRules] = lambda rules: rules,
    notes: Callable[[Put], object] = lambda _: None,
) -> Result:
    """Run this seed's world to its end, or to the first broken promise. `notes`: gets what was put, at the end."""
    made: list[Put] = []

    def begin(world: World) -> None:
        chance = Random(f"producing {seed}")
        put = Put(world, chance)
        made.append(put)
        world.ledger.observers.append(put.see_handled)
        for name in ("a", "b")[: chance.choice((1, 2))]:
            refuses, loses = chance.choice((0, 0.1, 0.4)), chance.choice((0, 0.05, 0.2))
            Program(name, put, change_rules(draw_rules(chance)), refuses, loses, mistake).start()

    def at_the_end(world: World) -> str | None:
        return made[0].left(world)

    result = play(
        seed,
        is_recorded=is_recorded,
        wiring=Wiring(begin=begin, at_the_end=at_the_end, sees_balance=False),
        without=OUT_OF_PLACE,
        start_position=StartPosition(StartKind.TRIM_HORIZON),
    )
    notes(made[0])
    return result


@dataclass(frozen=True, slots=True)
class BelievesWhatIsNotAnswered:
    """Takes a lost answer for a success."""

    real: RecordWriter

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        return [PutRecord("shardId-000000000000", "1") if one is NO_ANSWER else one for one in self.real.put(records)]


@dataclass(frozen=True, slots=True)
class PutsTwice:
    """Like a client that repeats a call by itself whenever a record of it was refused."""

    real: RecordWriter

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        answers = self.real.put(records)
        return self.real.put(records) if THROTTLED in answers else answers
