"""The engine's ports on top of the memory adapters, for one process: with latency, and with the weather's faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import (
    DestinationRefused,
    LeaseTableAccessDenied,
    LeaseTableUnavailable,
    StreamAccessDenied,
    StreamUnavailable,
    SubletError,
)
from sublet.metric_names import Metric
from sublet.ports import Applied, PollRefusal, Refused, ShardReader
from sublet.protocol.conditions import Row
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.records import GetRecordsReply, UserRecord
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import StartPosition
from sublet.testing.simulation.ledger import OrderBroken
from sublet.testing.simulation.retention import told_of_gap
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.shard_time import EMPTY_RUN_MAX
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

STALE_FOR = 4 * SECOND
"""How old a scan's row may be at most."""

LISTED_LATE_BY = 180 * SECOND
"""How old a listing of shards may be at most. Kinesis does not promise when a new shard is listed."""


class OddError(Exception):
    """An unexpected error: a bug in a client, or an error that it does not know."""


def fail_oddly(world: World, process: Process, refused: type[SubletError], what: str) -> None:
    """Makes a call fail in some odd way at times. Only our own processes must survive that, so only they meet it."""
    if not process.is_java and world.strikes(Fault.ODD_ERROR):
        world.note(process.name, f"has an odd error in {what}")
        odd = world.chance.choice((OddError, refused))(f"{what} failed oddly")
        world.odd_errors.append(odd)
        raise odd


class SimLeaseTable:
    """The LeaseTable port of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def scan(self) -> LeaseScan:
        """Reads page by page, so that one scan's rows are of different moments; some are older still."""
        world = self._world
        self._call("scan")
        keys = sorted(world.table.rows())
        decoded: list[Lease | MalformedRow | None] = []
        for number, key in enumerate(keys):
            if number and world.chance.random() < 0.1:
                world.step(self._process)
            row: Row | None = world.table.row(key)
            written_at, previous = world.watch.previous_rows.get(key, (-STALE_FOR, row))
            if world.scheduler.now_us - written_at < STALE_FOR and world.strikes(Fault.STALE_SCAN):
                row = previous
            decoded.append(None if row is None else decode_row(row))
        world.step(self._process)
        return LeaseScan(
            tuple(row for row in decoded if isinstance(row, Lease)),
            tuple(row for row in decoded if isinstance(row, MalformedRow)),
            at=world.scheduler.now().replace(microsecond=0),
        )

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        self._call("get")
        row = self._world.table.get(lease_key)
        self._world.step(self._process)
        return row

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        world = self._world
        world.write_audit.sent(self._process, write)
        self._call(str(write.kind))
        result = world.watch.commit(self._process, write)
        if world.strikes(Fault.LOST_RESPONSE):
            world.note(self._process.name, f"the response to its {write.kind} gets lost")
            world.step(self._process)
            if world.chance.random() < 0.3:
                raise LeaseTableUnavailable(f"no answer to {write.kind} {write.lease_key}")
            result = world.watch.commit(self._process, write)
        over = world.write_audit.judge(self._process, write, result)
        world.step(self._process)
        world.write_audit.answered(self._process, write, result, over)
        return result

    def _call(self, what: str) -> None:
        self._world.step(self._process)
        fail_oddly(self._world, self._process, LeaseTableAccessDenied, what)
        if self._world.strikes(Fault.LOST_REQUEST):
            self._world.note(self._process.name, f"cannot reach the lease table for a {what}")
            raise LeaseTableUnavailable(f"could not be reached for {what}")


class SimStream:
    """The Stream port of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._empty: dict[str, int] = {}
        """How many more pages of a shard are without records, even if there are some."""

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self._call("ListShards")
        world = self._world
        shards = self._listed(at)
        recent = [each for each in world.reshards if world.scheduler.now_us - each.at < LISTED_LATE_BY]
        if recent and at is None:
            before = world.chance.choice(recent).before
            if world.strikes(Fault.STALE_LISTING):
                shards = before
            elif world.strikes(Fault.INCONSISTENT_LISTING):
                open_before = {shard.shard_id for shard in before if shard.is_open}
                shards = tuple(replace(s, is_open=s.is_open or s.shard_id in open_before) for s in shards)
        world.step(self._process)
        return shards

    def _listed(self, at: StartPosition | None) -> tuple[Shard, ...]:
        """Lists the shards, sometimes in two pages from different moments."""
        world = self._world
        shards = world.stream.list_shards(at)
        if at is None and len(shards) > 1 and world.chance.random() < 0.3:
            cut = world.chance.randrange(1, len(shards))
            first, last_listed = shards[:cut], shards[cut - 1].shard_id
            world.step(self._process)
            shards = (*first, *(s for s in world.stream.list_shards() if s.shard_id > last_listed))
        return shards

    def describe(self) -> StreamDescription:
        self._call("DescribeStreamSummary")
        return self._world.stream.describe()

    def has_shard(self, shard_id: str) -> bool:
        self._call("has_shard")
        known = self._world.stream.has_shard(shard_id)
        self._world.step(self._process)
        return known

    def service_time(self) -> datetime:
        self._call("ListShards")
        now = self._world.scheduler.now()
        self._world.step(self._process)
        return now.replace(microsecond=0)

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self._call("GetShardIterator")
        self._world.opened(shard_id)
        if position.type is IteratorType.AT_SEQUENCE_NUMBER and self._process in self._world.items:
            self._world.looked_at[shard_id] = self._world.scheduler.now_us
        iterator = self._world.stream.open(shard_id, position)
        self._world.step(self._process)
        return iterator

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | PollRefusal:
        world = self._world
        self._call("GetRecords")
        if world.strikes(Fault.THROTTLED_POLL):
            return PollRefusal.THROTTLED
        if world.strikes(Fault.EXPIRED_ITERATOR):
            return PollRefusal.ITERATOR_EXPIRED
        if self._is_without_records(iterator.partition(" ")[0]):
            return world.stream.without_records(iterator)
        page = world.stream.poll(iterator, limit)
        world.step(self._process)
        if isinstance(page, GetRecordsReply) and page.page.is_shard_end and world.strikes(Fault.CHILDREN_UNKNOWN):
            return PollRefusal.THROTTLED  # the reply named no children, and a separate listing does not show them yet
        return page

    def _is_without_records(self, shard_id: str) -> bool:
        """Whether the page is empty: alone, or as one of a run of empty pages."""
        left = self._empty.get(shard_id, 0)
        if left == 0 and self._world.strikes(Fault.EMPTY_PAGE):
            left = self._world.chance.choice((1, 1, 2, EMPTY_RUN_MAX))
        self._empty[shard_id] = max(left - 1, 0) if self._world.has_faults else 0
        return left > 0

    def _call(self, what: str) -> None:
        self._world.step(self._process)
        fail_oddly(self._world, self._process, StreamAccessDenied, what)
        if self._world.strikes(Fault.STREAM_UNAVAILABLE):
            raise StreamUnavailable(f"{what}: no answer")


class SimDispatcher:
    """The Dispatcher port of one process: `start` runs the state machine. An item may be started twice: by a repeated
    call under its own id, by an Express execution that runs twice under an id for each run.
    """

    def __init__(self, world: World, process: Process, start: Callable[[WorkerItem], None]) -> None:
        self._world = world
        self._process = process
        self._start = start

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        for item in items:
            self._world.step(self._process)
            again = _second_run(item)
            self._world.senders[item.item_id] = self._world.senders[again.item_id] = self._process
            self._start(item)
            if self._world.strikes(Fault.DUPLICATED_ITEM):
                self._world.note(self._process.name, f"starts item {item.item_id} twice")
                self._start(again)
        self._world.step(self._process)


def _second_run(item: WorkerItem) -> WorkerItem:
    """Half of all items have an Express execution."""
    is_express = int(item.item_id, 16) % 2 == 1
    return replace(item, item_id=f"{item.item_id}-2") if is_express else item


class SimDestination:
    """The FailureDestination port of one process. It may refuse, or keep what it seems to have refused."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def put(self, batch: SetAsideBatch) -> None:
        world = self._world
        world.step(self._process)
        if world.strikes(Fault.LOST_REQUEST):
            raise DestinationRefused("could not be reached")
        is_answered = not world.strikes(Fault.LOST_RESPONSE)
        world.note(self._process.name, f"sets {len(batch.records)} of {batch.shard_id[-4:]} aside: {batch.condition}")
        cut = world.chance.randrange(len(batch.records)) if world.chance.random() < 0.3 else 0
        for message in (batch.records[:cut], batch.records[cut:]):
            self._keep(batch.shard_id, message, is_answered)
            world.step(self._process)
        if not is_answered:
            raise DestinationRefused("no answer")

    def _keep(self, shard_id: str, records: Sequence[UserRecord], is_answered: bool) -> None:
        """Keeps the batch, or one of several messages of it if it is too large for one."""
        try:
            self._world.ledger.give_up(self._process, shard_id, records, is_answered=is_answered)
        except OrderBroken as broken:
            self._world.fail(f"destination for {shard_id}: {broken}")


class SimMetrics:
    """The Metrics port, which discards everything."""

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        pass

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        pass

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        pass

    def flush(self, *, is_last: bool = False) -> None:
        pass


class SimLog:
    """The Log port, which writes to the history. Reports of gaps and losses are checked against the truth."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def info(self, message: str, **fields: object) -> None:
        if self._world.is_recorded and not self._process.is_dead:
            self._world.note(self._process.name, f"log: {message} {fields}")

    def warning(self, message: str, **fields: object) -> None:
        self.info(message, **fields)
        if message == "lease lost":
            self._world.write_audit.given_up(self._process, str(fields["lease_key"]))
        if message.startswith("another writer has moved the checkpoint"):
            self._world.write_audit.begins_anew(self._process, str(fields["lease_key"]))

    def error(self, message: str, **fields: object) -> None:
        self.info(message, **fields)
        if message == "lease lost with its table":
            error = str(fields["error"])
            self._world.write_audit.out_of_reach(self._process, str(fields["lease_key"]), error)
        if message.startswith("handler call hangs"):
            self._world.write_audit.hangs(self._process, str(fields["lease_key"]))
        if message.startswith("data gap"):
            told_of_gap(self._world, str(fields.get("shard_id", fields.get("lease_key"))))
