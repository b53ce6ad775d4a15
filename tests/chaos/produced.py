"""`make chaos CHAOS=--produce`: `sublet.Producer` and `sublet.aio.Producer` at load, while Kinesis refuses records, the
network loses, delays and cuts, and shards are split and merged. Then the stream is read as KCL reads it, and compared
with what was put.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from random import Random

from sublet.aws.account import AwsAccount
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.load.resharding import Merge, Split
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.ports import Stream
from sublet.ports.account import Account
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import Shard
from sublet.settings import Settings

from infra.local.embedded import REGION, EmbeddedAws, embedded_aws
from tests.chaos.network import Network, network
from tests.chaos.plan import Kind, Pace, Planned, Trouble, plan
from tests.chaos.put_programs import PutRecords, started
from tests.chaos.put_verdict import Put, judge
from tests.chaos.refusing import PUT_RECORDS, Busy, refusing

STREAM = "produced"
SHARDS = 4
FEWEST_SHARDS, MOST_SHARDS = 3, 8
PACES = {Kind.NETWORK: Pace((4, 9), (0.5, 4)), Kind.RESHARD: Pace((8, 16))}
REFUSES = 1 / 4
"""Of the network's spells, the share in which instead Kinesis refuses single records."""

PAGE = 200
"""Stream records of a poll: kinesis-local takes long for 10 MB."""

CLOSED_WITHIN = 180.0
ACTIVE_WITHIN, LOOK_EVERY = 60.0, 0.1


def produce_under_faults(
    seed: int,
    seconds: float,
    say: Callable[[str], object],
    per_round: int = 10,
    paces: dict[Kind, Pace] = PACES,
) -> Put:
    """`per_round`: how many records each of the three programs puts in EVERY seconds."""
    with ExitStack() as stack:
        aws = stack.enter_context(embedded_aws())
        direct = aws.account()
        direct.create(STREAM, SHARDS)
        _until_active(direct)
        keys = aws.environment["AWS_ACCESS_KEY_ID"], aws.environment["AWS_SECRET_ACCESS_KEY"]
        kinesis = aws.environment["AWS_ENDPOINT_URL_KINESIS"]
        busy = stack.enter_context(refusing(kinesis, REGION, *keys, f"{seed} busy"))
        lost = LostAnswers()
        between = stack.enter_context(network(busy.url, f"{seed} network", lost.note))
        faults = Faults(direct, between, busy, plan(seed, seconds, paces))
        known, stop = PutRecords(), threading.Event()
        threads = started(seed, STREAM, through(aws, between), known, stop, per_round)
        began, said = time.monotonic(), 0.0
        while (elapsed := time.monotonic() - began) < seconds:
            faults.go_on(elapsed)
            if elapsed >= said:
                say(f"{elapsed:4.0f} s: {known.put.total():,} put, {len(known.acknowledged):,} acknowledged")
                said += 10
            time.sleep(0.05)
        between.calm()
        busy.burst(0)
        stop.set()
        for thread in threads:
            thread.join(CLOSED_WITHIN)
        open_still = [thread.name for thread in threads if thread.is_alive()]
        say(f"{len(known.acknowledged):,} acknowledged; reading the stream")
        return _judged(seed, seconds, known, delivered(patient(aws)), lost, faults, open_still)


@dataclass
class LostAnswers:
    """The user records of the PutRecords whose answer may not have arrived."""

    data: set[bytes] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, operation: str, body: bytes) -> None:
        if operation != PUT_RECORDS:
            return
        records = [
            StreamRecord("1", b64decode(entry["Data"]), entry.get("PartitionKey"))
            for entry in json.loads(body)["Records"]
        ]
        found = {record.data for record in deaggregate(records, None).user_records}
        with self.lock:
            self.data |= found


@dataclass
class Faults:
    """Carries out the plan."""

    account: Account
    between: Network
    busy: Busy
    planned: Sequence[Planned]
    reshards: Counter[str] = field(default_factory=Counter)
    _next: int = 0

    def go_on(self, elapsed: float) -> None:
        while self._next < len(self.planned) and self.planned[self._next].at <= elapsed:
            planned = self.planned[self._next]
            self._next += 1
            chance = Random(planned.chance)
            if planned.kind is Kind.RESHARD:
                self._reshard(chance)
            elif chance.random() < REFUSES:
                self.busy.burst(planned.lasts)
            else:
                self.between.burst(chance.choice(list(Trouble)), planned.lasts)

    def _reshard(self, chance: Random) -> None:
        shards = open_shards(self.account)
        if len(shards) <= FEWEST_SHARDS or (len(shards) < MOST_SHARDS and chance.random() < 0.5):
            shard = max(shards, key=_width)
            self.account.change(STREAM, Split(shard.shard_id, sum(shard.hash_key_range) // 2 + 1))
            self.reshards["split"] += 1
        else:
            one, other = min(pairwise(shards), key=lambda pair: sum(map(_width, pair)))
            self.account.change(STREAM, Merge(one.shard_id, other.shard_id))
            self.reshards["merge"] += 1
        _until_active(self.account)


def open_shards(account: Account) -> list[Shard]:
    listed = account.reading(STREAM).list_shards()
    return sorted((one for one in listed if one.is_open), key=lambda one: one.hash_key_range)


def _width(shard: Shard) -> int:
    return shard.hash_key_range.ending - shard.hash_key_range.starting


def _until_active(account: Account) -> None:
    for attempt in count():
        if account.info(STREAM).status == "ACTIVE":
            return
        assert attempt * LOOK_EVERY < ACTIVE_WITHIN, "the stream does not become active"
        time.sleep(LOOK_EVERY)


def delivered(reading: Stream) -> Iterator[bytes]:
    """What a KCL consumer hands over: shard by shard, parents first, without what is outside its shard's hash range."""
    for shard in sorted(reading.list_shards(), key=lambda one: one.shard_id):
        reader = reading.reader(shard.shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
        inside = KeysInside(shard.hash_key_range)
        while True:
            page = reader.read(PAGE)
            if not isinstance(page, Page):
                continue
            yield from (record.data for record in deaggregate(page.records, inside).user_records)
            if page.is_shard_end or not (page.records or page.millis_behind_latest):
                break


def through(aws: EmbeddedAws, between: Network) -> AwsAccount:
    connection = aws.account()._connection
    return AwsAccount(connection._replace(endpoint_url=between.url))


def patient(aws: EmbeddedAws) -> Stream:
    """Its polls wait for a minute. A poll that was given up is still carried out, so kinesis-local would only fall
    behind.
    """
    kinesis = aws.client("kinesis")
    return KinesisStream(kinesis, aws.client("kinesis"), Settings(application=STREAM, stream=STREAM))


def _judged(
    seed: int,
    seconds: float,
    known: PutRecords,
    found: Iterable[bytes],
    lost: LostAnswers,
    faults: Faults,
    open_still: Sequence[str],
) -> Put:
    times, wrong = judge(known, found, lost.data)
    produced, put = known.produced, known.put.total()
    return Put(
        seed=seed,
        seconds=seconds,
        put=put,
        acknowledged=len(known.acknowledged),
        given_up=len(known.given_up),
        delivered=len(times),
        again=times.total() - len(times),
        calls=sum(one.calls for one in produced),
        retried=sum(one.retried for one in produced),
        sent_again=sum(one.sent_again for one in produced),
        stream_records=sum(one.stream_records for one in produced),
        requests=faults.between.requests,
        hit=Counter({str(one): n for one, n in faults.between.hit.items()}),
        reshards=faults.reshards,
        refused=faults.busy.refused,
        wrong=(*wrong, *(f"the program {name} does not close its producer" for name in open_still)),
    )
