"""What the engine needs from the world, in domain words. Implemented twice: aws/ (boto3) and memory/ (no network).

Each docstring is the contract; tests/contract checks every implementation against it. No boto3 type crosses these
interfaces. Expected outcomes are values (a refused write, a throttled poll); possible errors are named and come from
`sublet.errors`. Implementations have already retried whatever is transient, except where the contract says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from sublet.protocol.stream_info import Placement

if TYPE_CHECKING:  # no handler needs these: `import sublet` stays under 30 ms without them
    from sublet.decisions.load.sketch import ShardSketch
    from sublet.decisions.manager.announcing import Announcement
    from sublet.decisions.manager.dispatching import Dispatched
    from sublet.decisions.manager.liveness import Sighting
    from sublet.decisions.manager.packing import WorkerItem
    from sublet.decisions.manager.unread_shards import UnreadShard
    from sublet.decisions.session.push import PushEnd
    from sublet.decisions.session.read_position import ReadPosition
    from sublet.decisions.streams.chosen_streams import FoundStreams, KnownStream
    from sublet.decisions.time_and_chance import Chance
    from sublet.metric_names import Metric
    from sublet.protocol.control import Control
    from sublet.protocol.failure_document import SetAsideBatch
    from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
    from sublet.protocol.lease_writes import LeaseWrite
    from sublet.protocol.records import NewRecord, Page, PutRefused
    from sublet.protocol.shard import Shard
    from sublet.protocol.snapshot import Snapshot
    from sublet.protocol.stream_identity import StreamIdentity
    from sublet.protocol.stream_info import PutRecord, StreamDescription
    from sublet.protocol.stream_key import StreamKey
    from sublet.protocol.worker_report import WorkerReport
    from sublet.settings import StartPosition

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Applied(Struct, frozen=True):
    """The write happened, and the row is now `lease`."""

    lease: Lease


class Refused(Struct, frozen=True):
    """A clause of the write's condition did not hold; nothing was changed. `row` is the row that refused it (None: no
    such row).
    """

    row: Lease | MalformedRow | None


class LeaseTable(Protocol):
    """KCL's lease table. Raises LeaseTableNotFound, LeaseTableKeyUnexpected, LeaseTableUnavailable."""

    def scan(self) -> LeaseScan:
        """All leases. Eventually consistent: a row may be missing or seconds old, never half-written."""

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        """One row, strongly consistent; None if there is none (or it is not a lease)."""

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        """Do one conditional write atomically. If the response is lost the write is retried, so our own write may come
        back Refused.
        """


class PollRefusal(StrEnum):
    """Why a read returned nothing. It does not change the position."""

    THROTTLED = "throttled"
    """The shard's read limit is used up: 5 calls or 2 MB a second, shared by all its consumers. Read again later."""
    ITERATOR_EXPIRED = "iterator_expired"
    """An iterator lives 300 s. The next read opens a new one after the last record that was fetched."""
    NOT_YET = "not_yet"
    """A push has brought nothing within the time that a read waits. Read again at once: the read waits, not the
    caller.
    """
    NOT_PUSHED = "not_pushed"
    """The push's consumer is not registered any more. From the next read on, this reader polls."""

    @property
    def problem(self) -> str:
        return self.value


class Unanswered(Struct, frozen=True):
    """A read or a call got no answer: the service failed, or its answer was lost or incomplete. Try again later.
    `problem`: what was met, in its own words.
    """

    problem: str


Refusal = PollRefusal | Unanswered
"""Why a read returned no page."""


class Stream(Protocol):
    """One Kinesis stream. Raises StreamNotFound, ShardNotFound, StreamKeyUnavailable, StreamAccessDenied,
    StreamUnavailable.
    """

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        """Every listed shard, closed ones included; with `at`, those open at that position (ListShards'
        ShardFilter).
        """

    def describe(self) -> StreamDescription:
        """The stream's identity and how it places records. StreamAccessDenied if only this call is not permitted. An
        account may call it 20 times a second, for all its streams and consumers together: call it seldom.
        """

    def has_shard(self, shard_id: str) -> bool:
        """Whether the service still has the shard. Asks for that shard itself, since a listing may lag."""

    def service_time(self) -> datetime:
        """A time by the service's own clock, at most a second or two ago and never in its future: nothing that arrives
        from now on arrives before it. A worker's clock may be ahead, and a LATEST lease pinned by it would skip what
        arrives meanwhile.
        """

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        """Makes no call to the service until the reader is opened or read."""


class Streams(Protocol):
    """The streams of an application that reads several (`protocol.stream_key`). Raises what Stream raises."""

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        """Which streams the setting `streams` names now. Some calls for the whole account: find them seldom.

        A stream that has to be described by itself, as those of other accounts have, may be refused while the others
        are not. If it is one of those `known` from before, it counts as it was then.
        """

    def of(self, stream: StreamKey) -> Stream:
        """One of the streams, whether it exists or not. Its shards are named as in the application, and StreamNotFound
        also means that there is another stream of its name. Makes no call.
        """

    def arn(self, stream: StreamKey) -> str:
        """Makes no call."""


class ShardReader(Protocol):
    """One shard's records from a position on, in order. Raises what Stream raises, and CheckpointNotInStream.

    It reads by polls (`reading.polling`) or by a push (`reading.pushing`). It keeps its position whatever is refused.
    """

    def open(self) -> None:
        """Prepare to read, as the first read otherwise does: this does not count against the shard's read limit."""

    def read(self, limit: int) -> Page | Refusal:
        """The next page, of at most `limit` stream records. An empty one is normal, even far behind the tip; do not
        read after one that `is_shard_end`.
        """


class PushReader(ShardReader, Protocol):
    """A ShardReader to which records are sent as they arrive. One thread at a time reads, and another may interrupt
    it.
    """

    def wait(self, longest: timedelta) -> bool:
        """Wait until something has come, or for `longest`, or until interrupted. Returns whether a read will find
        something, which may be that the service refuses. Only after that is memory for one page needed.
        """

    @property
    def is_polling(self) -> bool:
        """True once it polls, because the consumer is gone or to make sure of the shard's end. Its caller then has to
        pace its reads.
        """

    @property
    def as_of(self) -> datetime | None:
        """No later than the moment at which the service sent the last page, by this machine's wall clock. None while
        polling. A page may have waited here while a handler was busy, and its lag is as of then.
        """

    def interrupt(self) -> None:
        """End the subscription and every wait, at once and for good. Any thread may call it, also in a signal handler:
        it takes no lock and raises nothing.
        """

    def close(self) -> None:
        """Free what is held. No thread reads or waits any more."""


class Pushed(NamedTuple):
    """One event of a subscription. `continuation`: the sequence number after which the next subscription goes on; None
    at the shard's end, whose children `page` then names, as far as the service did.
    """

    page: Page
    continuation: str | None


class ShardSubscription(Protocol):
    """One SubscribeToShard, for as long as it lasts."""

    def wait(self, longest: timedelta) -> bool:
        """Wait until something has come, its end included, or for `longest`. Returns whether something has."""

    def next(self) -> Pushed | PushEnd | Unanswered:
        """The next event, of which some bytes have come, or why there is none. Raises what Stream raises."""

    @property
    def has_more(self) -> bool:
        """Whether more bytes have come than those of the events that were taken. Does not wait."""

    def interrupt(self) -> None:
        """End it and every wait at once. Takes no lock, raises nothing."""

    def close(self) -> None:
        """Free what it holds. No thread uses it any more."""


class Pushes(Protocol):
    """SubscribeToShard, as one registered consumer. Raises what Stream raises, and CheckpointNotInStream."""

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        """Begin a subscription. At most one call a second for a shard."""


class RecordWriter(Protocol):
    """Puts records into one stream. Safe for threads."""

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        """Call PutRecords once, without retries. Returns for each record where it was stored, or why it may not have
        been. If the reply is lost, all records count as refused, though some may be stored. A record may be refused and
        a later one stored.

        Raises StreamNotFound, StreamKeyUnavailable, StreamAccessDenied, and RecordRefused if the service will never
        accept the call and does not say which records are to blame.
        """


class Remembered(Struct, frozen=True):
    """What lease managers know from earlier ticks, read at one moment.

    sightings   by lease key
    stream      the stream of the application's leases; None before the first tick
    dispatched  by lease key, the last dispatches
    unread      by lease key, what is known about shards that stand still
    definition  the options that all pulling programs share, as text by name; None if they are not defined
    round       how often `dispatched` has been replaced
    announced   by worker id, the last announcement, lapsed or not
    placement   what any process's last descriptions of the stream say
    asked_at    when a process last started to describe the stream
    streams     what is known about each stream, if the application reads several
    """

    sightings: Mapping[str, Sighting]
    stream: StreamIdentity | None = None
    dispatched: Mapping[str, Dispatched] = {}
    unread: Mapping[str, UnreadShard] = {}
    round: int = 0
    definition: Mapping[str, str] | None = None
    announced: Mapping[str, Announcement] = {}
    placement: Placement = Placement()
    asked_at: datetime | None = None
    streams: Mapping[StreamKey, KnownStream] = {}


class SightingStore(Protocol):
    """What lease managers remember between ticks, apart from the lease table, whose rows are KCL's.

    Raises what LeaseTable raises, for a table of its own.
    """

    def load(self) -> Remembered:
        """Strongly consistent."""

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        """Replace all sightings. The last writer wins; that is safe (liveness)."""

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        """Store the stream of the leases if the stored one is `instead_of` (None: none yet). Returns whether it was."""

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        """Announce that the stream is being described, unless another process has done so since `seen`. Returns whether
        it was announced: of many processes at once, one makes the call.
        """

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        """Store the result of a description that was started at `asked_at`. The last writer wins."""

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        """Store what is known about these streams, if the application reads several. Other streams' notes stay as they
        are. For each stream the last writer wins.
        """

    def forget_stream(self, stream: StreamKey) -> None:
        """Forget the stream, if it is known."""

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        """Store the options that all pulling programs share if the stored ones are `instead_of` (None: none). Returns
        whether the new ones are stored.
        """

    def keep_dispatched(self, dispatched: Mapping[str, Dispatched], seen_round: int) -> bool:
        """Replace the dispatches, unless that was done since `seen_round`: of two ticks at once, one dispatches.
        Returns whether they are stored. Some may be dropped if there are too many: such a lease may be dispatched
        twice.
        """

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        """Replace what is known about shards that stand still. The last writer wins; if it is lost, an alarm comes a
        tick later.
        """

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        """Store this worker id's announcement instead of its last one, and delete those of the `lapsed` ones."""

    def begin_prompted(self, token: str, now: datetime) -> bool:
        """Begin the one tick that answers prompts. Returns False if a tick with another token began less than
        `PROMPTED_TICK_ENDS_WITHIN` ago; this prompt then makes that tick look again when it is done.
        """

    def end_prompted(self, token: str) -> bool:
        """End the tick with this token. Returns whether it has to look again, because another prompt has come meanwhile
        or that is no longer known. If it took too long and another tick has begun since, that one looks instead.
        """


class SnapshotStore(Protocol):
    """Where an operator's snapshots of positions are kept: beside the sightings. Raises what LeaseTable raises."""

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Store it, instead of one of the same name."""

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots, the newest last. One that cannot be read has a `problem`."""

    def delete_snapshot(self, name: str) -> None:
        """Delete the snapshot, if it is there."""


class ControlStore(Protocol):
    """Where an operator's control of the leases is kept: beside the sightings, and no tick replaces it. Raises what
    LeaseTable raises. Safe for threads.
    """

    def control(self) -> Control:
        """The current control, strongly consistent; an empty one if none was ever stored. Raises ControlUnreadable."""

    @property
    def answered_at(self) -> datetime | None:
        """When `control` last had an answer, by the store's own clock; None if that is not known. Pauses end by this
        clock: an operator's machine sets the end, and each worker's reads it.
        """

    def keep_control(self, control: Control) -> bool:
        """Store this control if the stored one still has this one's `round`, and raise the round by one. Returns
        whether it was stored: False if another operator was first. Workers may not call this.
        """

    def replace_unreadable(self) -> None:
        """Replace a control that cannot be read with an empty one."""


class SketchStore(Protocol):
    """Where the sketches of the ten hottest shards are kept: beside the sightings. Ticks ignore them. Raises what
    LeaseTable raises. Safe for threads.
    """

    def keep(self, sketch: ShardSketch) -> bool:
        """Store the sketch if its shard is hot and among the ten hottest (decisions.sketch_places), merged with what is
        stored for the same half hour. Returns whether it was stored.
        """

    def sketches(self) -> tuple[ShardSketch, ...]:
        """All sketches that can be read, old ones too."""


class WorkerReports(Protocol):
    """The reports by which workers of a KCL 3.x fleet show its leader that they are alive. Raises what LeaseTable
    raises.

    Reports in the lease table come with its scan; others are in a separate table, which need not exist.
    """

    def load(self) -> tuple[WorkerReport, ...]:
        """All reports of the separate table; none if there is no such table, or we may not read it."""

    def client_version(self) -> str | None:
        """The version by whose rules the fleet works. It is stored beside that table; None if it is missing or we may
        not read it.
        """

    def get(self, worker_id: str) -> WorkerReport | None:
        """A worker's report: from the lease table, or else from the separate table."""

    def put(self, report: WorkerReport) -> None:
        """Replace the worker's report in its table. Call this only if other workers report: see
        decisions.fleet_kind.
        """

    def remove(self, report: WorkerReport) -> None:
        """Delete the report from its table, if it is there."""


class Dispatcher(Protocol):
    """Starts lease workers."""

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        """Start one lease worker per item, at least once each, and return without waiting for them."""


class FailureDestination(Protocol):
    """Where records are set aside. Raises DestinationRefused."""

    def put(self, batch: SetAsideBatch) -> None:
        """Returns once all of them are stored. If it raises, some may be stored: the same batch is put again, and is
        then stored twice, or once if the destination can tell.
        """


class KeptBatch(Struct, frozen=True):
    """A batch that a destination keeps under a name. It has a `problem` instead of the batch if the batch belongs to
    another application or cannot be read. `version` identifies what was read, if the name may later stand for something
    else.
    """

    name: str
    batch: SetAsideBatch | None
    problem: str = ""
    version: str = ""


class HeldBack(Struct, frozen=True):
    """A FIFO queue's message group whose first messages were all left in the queue. There are as many as the queue
    returns of one group, so the later ones cannot be received.
    """

    group: str
    left: int


GIVEN_FOR = timedelta(minutes=15)
"""A window's length: a store gives a batch to no other consumer during this time."""

HELD_EVERY = GIVEN_FOR / 3
"""How often a redrive calls SetAsideStore.hold, except during a call of the handler."""


class Counted(NamedTuple):
    """About how many batches a store keeps: those that are available, and those that another consumer has received."""

    available: int
    hidden: int = 0


class Removal(StrEnum):
    """The result of removing a batch."""

    REMOVED = "removed"
    STAYS = "stays"
    """Something else was stored under its name since it was read, or another consumer has received it since."""
    GONE = "gone"
    """Another redrive has removed it meanwhile. Only a store that hides nothing from others can tell."""


class SetAsideStore(Protocol):
    """A failure destination that returns what it keeps. Raises DestinationRefused."""

    def counted(self) -> Counted:
        """Batches that `kept` has returned are hidden, and available again after GIVEN_FOR."""

    def kept(self, application: str) -> Generator[KeptBatch | HeldBack, None, None]:
        """Yields every available batch, each shard's in order. Lazily: memory holds one batch, and the names of the
        others. Batches of other applications may be listed without being read. HeldBack comes last.

        Remove or leave each before asking for the next. No other consumer gets it for GIVEN_FOR, unless the store says
        that it cannot promise that; nor those that wait for their turn, for GIVEN_FOR since the last `hold`. Once this
        is closed, or has raised, others can get what it has not returned.
        """

    def remove(self, kept: KeptBatch) -> Removal:
        """Delete a handled batch: exactly what was read, nothing else. Removing a batch that is gone is no error."""

    def hold(self) -> None:
        """Other consumers do not get what `kept` has received, and not yet returned, for another GIVEN_FOR."""

    def leave(self, kept: KeptBatch) -> None:
        """Keep it; any consumer may get it again."""


class Clock(Protocol):
    """Where the engine gets the time. Both clocks return UTC-aware moments, which are equal until the machine's clock
    is set.
    """

    def now(self) -> datetime:
        """The moment by the wall clock: for stored times, and for comparing with other machines' times. It may jump."""

    def steady(self) -> datetime:
        """The moment by a clock for durations, which is never set and never goes back. It stands still while the
        machine is suspended.
        """


class Signal(Protocol):
    """A flag that is set once and never cleared."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: timedelta) -> bool:
        """Sleep until set or for `timeout`; returns whether it is set. This is the only way that the engine sleeps."""

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when this is set, or at once if it is set already. Returns a function that takes it
        back.

        The thread that sets the signal makes the call, and may be in a signal handler: the callback takes no lock and
        raises nothing.
        """


class Task(Protocol[T_co]):
    """Work going on beside the caller."""

    def result(self) -> T_co:
        """Wait for it. Returns its value, or raises its exception."""


class Tasks(Protocol):
    """Concurrency, so that a simulation can decide who runs next."""

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        """Start `work` beside the caller."""

    def lock(self) -> AbstractContextManager[object]:
        """A lock, not reentrant."""

    def slots(self, count: int) -> AbstractContextManager[object]:
        """A semaphore for `count` holders."""

    def signal(self) -> Signal: ...


class Metrics(Protocol):
    """Numbers for dashboards and alarms. Never raises."""

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None) -> None:
        """One value, for the whole application or for one shard."""

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """Put one value for one of the worst shards, but not for the application. This has an effect only with
        `metrics_by_shard=worst`: with `all` each shard's reader puts the value, and with `none` no shard has metrics.
        """

    def flush(self) -> None:
        """Write what was put. The engine calls it at the end of a tick or window, and at least each minute within."""


class Log(Protocol):
    """Structured log lines: a constant message and fields. Never given a payload or a credential. A field must not have
    the name of an attribute of `logging.LogRecord`, such as `name`: Python's logging refuses it.
    """

    def info(self, message: str, **fields: object) -> None: ...

    def warning(self, message: str, **fields: object) -> None: ...

    def error(self, message: str, **fields: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything an application needs from the world, made in one place: `sublet.aws.ports.aws_ports`,
    `sublet.testing.memory.memory_ports`.

    Besides these a lease manager needs a Dispatcher, which the runtime provides, and a lease worker a Handler, which
    the user does.
    """

    table: LeaseTable
    stream: Stream
    sightings: SightingStore
    clock: Clock
    tasks: Tasks
    chance: Chance
    metrics: Metrics
    log: Log
    destination: FailureDestination | None = None
    """None without the setting `on_failure`: no record is ever set aside."""
    reports: WorkerReports | None = None
    """None if we do not report to a KCL 3.x leader, which then assigns us nothing."""
    control: ControlStore | None = None
    """None if no operator can pause this application's leases."""
    sketches: SketchStore | None = None
    """None if no sketches are made."""
    pushes: Pushes | None = None
    """None if shards are read by polls."""
    streams: Streams | None = None
    """The streams of an application of several; `stream` then goes to each of them. None if it reads one."""
