"""What happens to a pipeline, its streams and its fleet, drawn from one seed and printed: when, and what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

from botocore.exceptions import ClientError
from sublet.protocol.aggregation import aggregate

from infra.local import EmbeddedAws
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import ROOT
from tests.spark.tortured_handler import JOURNAL
from tests.spark.tortured_lake import WITH_MORE, WRONG, TorturedLake
from tests.spark.tortured_process import Outcome, SparkProcess

LOST = "Set failOnDataLoss to false"
"""Says that records are gone."""

VICTIMS = [
    ("workers", "workers", "all"),
    ("workers", "workers", "workers", "jvm"),
    ("workers", "source"),
    ("workers", "workers", "workers"),
    ("all",),
]
"""What is killed in one run, one after the other."""

WAITS = "LeaseHeldElsewhere"
"""Says that others have the leases."""


class JsonStream(BusyStream):
    """Numbers its records as JSON objects, of which every ninth does not fit the schema. Half of them, about, come in
    aggregates, each of one key. `first`: the first record's number."""

    def __init__(self, client: Any, name: str, seed: int, first: int = 0) -> None:
        super().__init__(client, name, seed)
        self.first = first

    def _number(self) -> bytes:
        number = self.first + len(self.produced)
        value = {"id": f"{number}" if number % 9 == 4 else number, "note": self.name}
        self.produced.append(json.dumps(value).encode())
        return self.produced[-1]

    def produce_many(self, records: int) -> None:
        until = len(self.produced) + records
        while len(self.produced) < until:
            self.produce()
            if until - len(self.produced) > 500:
                self._produce_aggregates()

    def _produce_aggregates(self) -> None:
        records = []
        for _ in range(6):
            key = f"key-{self._chance.randrange(1000)}"
            inner = [(key, None, self._number()) for _ in range(self._chance.randrange(2, 60))]
            records.append({"PartitionKey": key, "Data": aggregate(inner)})
        reply = self._client.put_records(StreamName=self.name, Records=records)
        assert reply["FailedRecordCount"] == 0, reply


class World(ABC):
    """One sink under torture.

    records, kills  how many at least, in all
    """

    kind = ""

    def __init__(
        self, aws: EmbeddedAws, folder: Path, sink: str, conf: dict[str, str], seed: int, records: int, kills: int
    ) -> None:
        self.aws, self.folder, self.sink, self.chance = aws, folder, sink, Random(f"{seed} {sink} {self.kind}")
        self.records, self.kills, self.began = records, kills, time.monotonic()
        self.round_size = max(1, records // kills)
        self.counts: Counter[str] = Counter()
        self.spark = SparkProcess(aws, folder, conf)
        self.name = f"tortured-{self.kind}-{sink}-{os.getpid()}"
        self.kinesis = aws.client("kinesis")
        self.streams = [self.new_stream("a")]
        self.gone: list[JsonStream] = []
        self.lake = self.new_lake("main")
        self.untouched: list[Callable[[], object]] = []
        self.say(f"{self.kind} into {sink}: seed {seed}, {records} records, {kills} kills")

    def say(self, what: str) -> None:
        print(f"  {time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    def count(self, what: str) -> None:
        self.counts[what] += 1
        self.say(what)

    def new_stream(self, letter: str) -> JsonStream:
        return JsonStream(self.kinesis, f"{self.name}-{letter}", self.chance.randrange(10**6))

    def new_lake(self, name: str, **options: str) -> TorturedLake:
        given = options or self.options()
        folder, size = self.folder / name, max(20, self.round_size // 3)
        return TorturedLake(self.spark, folder, self.sink, self.chance, self.pattern, given, size)

    @property
    @abstractmethod
    def pattern(self) -> str: ...

    def options(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def torture(self) -> None: ...

    @property
    def produced(self) -> Counter[bytes]:
        return Counter(data for stream in [*self.streams, *self.gone] for data in stream.produced)

    def produce(self) -> None:
        """For each turn, also when all records are there and a kill is lacking: only a run that writes is killed."""
        size = self.round_size if self.lacks_records else self.round_size // 4
        for _ in self.streams:
            self.chance.choice(self.streams).produce_many(max(1, size // len(self.streams)))

    @property
    def lacks_records(self) -> bool:
        return sum(self.produced.values()) < self.records

    def turns(self) -> Iterator[int]:
        """Until all records are there, and all kills have been."""
        for turn in range(10 * self.kills):
            if self.counts["killed"] >= self.kills and not self.lacks_records:
                return
            if turn:
                self.touch()
            yield turn

    def reshard(self) -> None:
        self.chance.choice(self.streams).reshard()

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """Shards split or merge in mid-batch, and records come, at drawn moments."""
        moments = [self.chance.uniform(1, 15) for _ in range(self.chance.randrange(3))]
        chance = Random(self.chance.random())

        def happen() -> None:
            try:
                stream = chance.choice(self.streams)
                stream.reshard()
                stream.produce()
                self.count("reshard meanwhile")
            except ClientError as refusal:
                self.say(f"no reshard: {refusal}")

        timers = [Timer(moment, happen) for moment in moments]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
                timer.join()

    def arrive(self) -> None:
        """Available is what arrived before a run began, by the second."""
        time.sleep(1.1)

    def run_and_kill(self, lake: TorturedLake) -> Outcome:
        self.arrive()
        kills: list[tuple[int, str, float]] = []
        within = 10 if self.sink == "iceberg" else 25  # about a batch's steps
        for victim in self.chance.choice(VICTIMS):
            step, delay = self.chance.randrange(1, within), self.chance.choice([0.0, 0.05, self.chance.uniform(0, 1)])
            kills.append((step + (kills[-1][0] if kills else 0), victim, delay))
        with self.meanwhile():
            outcome = lake.run({"kills": kills}, self.chance.choice([0.0, 3.0]))
        for killed in outcome.killed:
            self.count("killed")
            self.say(f"    {killed}")
        self.say(f"the run ended: {(outcome.error or 'well')[:300]}")
        assert outcome.is_well or outcome.killed or self.is_told(outcome), outcome.error
        self.hear(outcome)
        lake.assert_never_twice()
        return outcome

    def is_told(self, outcome: Outcome) -> bool:
        """Whether the run was refused by name, as it has to be here."""
        return LOST in (outcome.error or "")

    def run_well(self, lake: TorturedLake) -> None:
        self.arrive()
        outcome = lake.run()
        if LOST in (outcome.error or ""):
            self.count("refused: records are gone")
            outcome = lake.run(more={"failOnDataLoss": "false"})
        assert outcome.is_well, f"{outcome.error}\n{self.spark.said()}"
        self.hear(outcome)

    def hear(self, outcome: Outcome) -> None:
        """Prints what the run says that only `reparse` brings."""
        for line in outcome.said:
            if "reparse --from raw" in line:
                self.count("told to reparse")
                self.say(line.strip())

    def touch(self) -> None:
        """Each touch once, in a drawn order, before any comes again."""
        if not self.untouched:
            self.untouched = self.touches()
            self.chance.shuffle(self.untouched)
        touch = self.untouched.pop()
        self.count(touch.__name__)
        touch()

    def touches(self) -> list[Callable[[], object]]:
        lake = self.lake
        found: list[Callable[[], object]] = [lake.keep_copy, lake.put_copy_back, lake.move_checkpoint, lake.cut_short]
        found += [lake.uncommit, lake.empty_checkpoint, self.reshard, self.add_column]
        found += [self.give_another_checkpoint, self.give_another_type]
        return [*found, lake.maintain] if lake.is_replaceable else found

    def add_column(self) -> None:
        self.lake.schema = WITH_MORE

    def give_another_checkpoint(self) -> None:
        if self.lake.rows("raw"):
            outcome = self.lake.run(checkpoint=self.folder / "another")
            assert "the output needs its own checkpoint" in (outcome.error or ""), outcome.error
            self.count("refused: another checkpoint")

    def give_another_type(self) -> None:
        """Refused before `parsed` has the rows, while `raw` may have them."""
        if not self.lake.rows("parsed"):
            return
        self.streams[0].produce()
        self.arrive()
        outcome = self.lake.run(schema=WRONG)
        if not self.is_told(outcome):
            assert "the table has bigint, and these rows have string" in (outcome.error or ""), outcome.error
        self.count("refused: another type")


class StreamsWorld(World):
    """Streams come, go and come again, and the checkpoint's commits are forged."""

    kind = "streams"

    @property
    def pattern(self) -> str:
        return f"{self.name}-*"

    def touches(self) -> list[Callable[[], object]]:
        found = [*super().touches(), self.add_stream, self.remove_stream, self.recreate_stream]
        found.append(self.give_another_stream)
        return [*found, self.lake.reparse_at_once] if self.lake.is_replaceable else found

    def give_another_stream(self) -> None:
        if self.lake.rows("raw"):
            outcome = self.lake.run(stream=self.streams[0].name)
            assert "give another output" in (outcome.error or ""), outcome.error
            self.count("refused: another stream")

    def add_stream(self) -> None:
        if len(self.streams) < 4:
            used = {stream.name[-1] for stream in [*self.streams, *self.gone]}
            self.streams.append(self.new_stream(next(letter for letter in "abcdefghij" if letter not in used)))

    def remove_stream(self) -> JsonStream | None:
        """When its records are all read, or not: then those that are in no table do not count."""
        if len(self.streams) < 2:
            return None
        stream = self.chance.choice(self.streams[1:])
        is_read = self.chance.random() < 0.5
        if is_read:
            self.settle()
        self.kinesis.delete_stream(StreamName=stream.name)
        self.kinesis.get_waiter("stream_not_exists").wait(StreamName=stream.name, WaiterConfig={"Delay": 1})
        self.streams.remove(stream)
        self.gone.append(stream)
        if not is_read:
            self.run_well(self.lake)
            kept = self.lake.data()
            lost = [data for data in stream.produced if data not in kept]
            self.say(f"{len(lost)} records gone unread")
            stream.produced[:] = [data for data in stream.produced if data in kept]
            self.make_whole()
        return stream

    def recreate_stream(self) -> None:
        stream = self.remove_stream()
        if stream is not None:
            seed, first = self.chance.randrange(10**6), 10**6 * len(self.gone)
            self.streams.append(JsonStream(self.kinesis, stream.name, seed, first))
            self.streams[-1].produce()

    def make_whole(self) -> None:
        """What Delta and Iceberg wrote into `raw` of a batch that cannot be repeated has to be parsed."""
        if self.lake.is_replaceable and self.lake.unparsed():
            self.count("reparse")
            self.lake.reparse()
        self.lake.assert_split()

    def settle(self) -> None:
        self.run_well(self.lake)
        self.assert_each_once()
        self.say(f"settled: {sum(self.produced.values())} records, each once")

    def assert_each_once(self) -> None:
        assert_same(self.lake.data(), self.produced)
        self.lake.assert_never_twice()
        self.lake.assert_split()

    def torture(self) -> None:
        for turn in self.turns():
            self.produce()
            self.run_and_kill(self.lake)
            self.forge()
            if turn % 3 == 2:
                self.settle()
        self.settle()

    def forge(self) -> None:
        if (forged := self.lake.forge_commit()) is None:
            return
        self.count("forge_commit")
        self.streams[0].produce()
        self.arrive()
        outcome = self.lake.run()
        if not outcome.is_well:
            assert "it is ahead of table" in (outcome.error or "") or self.is_told(outcome), outcome.error
            self.lake.take_back_commit(forged)
            self.count("refused: ahead")


class HeldWorld(World):
    """`leases=hold` takes turns with `sublet run`; and `follow` begins where they are."""

    kind = "held"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.journal = self.folder / "journal"
        self.journal.touch()
        self.followers: list[tuple[TorturedLake, Counter[bytes]]] = []
        self.is_clean = True

    @property
    def pattern(self) -> str:
        return self.streams[0].name

    def options(self) -> dict[str, str]:
        return {"application": self.name, "leases": "hold", "failoverTime": "6s"}

    def is_told(self, outcome: Outcome) -> bool:
        return super().is_told(outcome) or WAITS in (outcome.error or "")

    def handled(self) -> Counter[bytes]:
        return Counter(self.journal.read_bytes().splitlines())

    def run_fleet(self, until: Callable[[], bool], how: signal.Signals) -> None:
        words = ["run", "--application", self.name, "--stream", self.pattern, "--failover-time", "6s"]
        words += ["--heartbeat-interval", "2s", "--checkpoint-interval", "1s", "--batch-size", "50"]
        words += ["--handler", "tests.spark.tortured_handler:handle"]
        environment = {**os.environ, **self.aws.environment, "PYTHONPATH": str(ROOT), JOURNAL: str(self.journal)}
        with (self.folder / "fleet").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "sublet", *words], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + 120
            while not until():
                assert process.poll() is None, (self.folder / "fleet").read_text()[-3000:]
                assert time.monotonic() < deadline, "the fleet does not get there"
                time.sleep(0.2)
            process.send_signal(how)
            process.wait(60)
        finally:
            process.kill()
            process.wait()

    def has_all(self) -> bool:
        return not self.produced - self.lake_data - self.handled()

    def take_a_turn(self) -> None:
        """The fleet takes all, or some, and is stopped or killed."""
        self.lake_data = self.lake.data()
        wanted = sum(self.handled().values()) + self.chance.randrange(1, self.round_size)

        def has_some() -> bool:
            return self.has_all() or sum(self.handled().values()) >= wanted

        takes_all = self.chance.random() < 0.3
        how = signal.SIGTERM if self.chance.random() < 0.7 else signal.SIGKILL
        before = self.handled()
        self.run_fleet(self.has_all if takes_all else has_some, how)
        took = self.handled() - before
        self.count(f"fleet, {how.name}")
        self.say(f"it took {sum(took.values())}, of which {sum((took & self.lake_data).values())} are in the lake")
        if self.is_clean:
            assert not took & self.lake_data, "nothing was cut off, and yet the fleet repeats"
        self.is_clean = how is signal.SIGTERM and (self.is_clean or self.has_all())

    def follow(self) -> None:
        """A lake that begins where the application's checkpoints are: possibly within an aggregate."""
        if not self.is_clean or len(self.followers) >= 2:
            return
        done = self.lake.data() | self.handled()
        follower = self.new_lake(f"follower{len(self.followers)}", application=self.name, leases="follow")
        self.arrive()
        outcome = follower.run()
        assert outcome.is_well, outcome.error
        follower.options = {} if self.chance.random() < 0.5 else follower.options
        self.followers.append((follower, done))

    def torture(self) -> None:
        for turn in self.turns():
            self.produce()
            if self.chance.random() < 0.4:
                self.reshard()
            draw = self.chance.random()
            if draw < 0.3:
                self.take_a_turn()
            elif draw < 0.4 and turn > 1:
                self.count("follow")
                self.follow()
            elif draw < 0.5 and self.followers:
                self.run_and_kill(self.chance.choice(self.followers)[0])
            else:
                self.is_clean = self.run_and_kill(self.lake).is_well
            if turn % 4 == 3:
                self.settle()
        self.settle()
        for follower, done in self.followers:
            self.run_well(follower)
            assert_same(follower.data(), self.produced - done)
            follower.assert_never_twice()
            follower.assert_split()

    def give_another_type(self) -> None:
        super().give_another_type()
        self.is_clean = False  # its batch is cut off

    def settle(self) -> None:
        self.run_well(self.lake)
        self.lake.assert_never_twice()
        raw, handled = self.lake.data(), self.handled()
        assert_same(raw | Counter(handled.keys()), self.produced)
        unparsed = self.lake.unparsed()
        if unparsed:
            assert self.lake.is_replaceable, "Parquet has one transaction for all tables"
            self.count("reparse")
            self.say(f"{unparsed} records of raw are not parsed")
            self.lake.reparse()
        self.lake.assert_split()
        self.is_clean = True
        self.say(f"settled: {len(raw)} in raw, {len(handled)} by the fleet, {len(raw & handled)} by both")


def assert_same(found: Counter[bytes], wanted: Counter[bytes]) -> None:
    missing, more = wanted - found, found - wanted
    assert not missing, f"missing {sum(missing.values())}, such as {min(missing)!r}"
    assert not more, f"too many: {sum(more.values())}, such as {min(more)!r}"


@dataclass(frozen=True, slots=True)
class Verdict:
    records: int
    counts: Counter[str]


def tortured(world: World) -> Verdict:
    try:
        world.torture()
    except BaseException:
        world.say(world.spark.said())
        raise
    finally:
        world.spark.end()
    return Verdict(sum(world.produced.values()), world.counts)
