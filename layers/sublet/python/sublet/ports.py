"""What the engine needs from the world, in domain words. Implemented twice: aws/ (boto3) and memory/ (no network).

Each docstring is the contract; tests/contract holds every implementation to it. No boto3 shape crosses these interfaces.
Expected outcomes are values (a refused write, a throttled poll); the errors that may be raised are named and come from
`sublet.errors`. Whatever is transient has been retried inside already.
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

if TYPE_CHECKING:  # what no handler meets: `import sublet` stays under 30 ms without it
    from sublet.decisions.announcing import Announcement
    from sublet.decisions.chance import Chance
    from sublet.decisions.dispatching import Dispatched
    from sublet.decisions.liveness import Sighting
    from sublet.decisions.packing import WorkerItem
    from sublet.decisions.read_position import ReadPosition
    from sublet.decisions.unread_shards import Unread
    from sublet.metric_names import Metric
    from sublet.protocol.failure_document import SetAsideBatch
    from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
    from sublet.protocol.lease_writes import LeaseWrite
    from sublet.protocol.records import Page
    from sublet.protocol.shard import Shard
    from sublet.protocol.stream_identity import StreamIdentity
    from sublet.protocol.stream_info import StreamDescription
    from sublet.protocol.worker_report import WorkerReport
    from sublet.settings import StartPosition

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Applied(Struct, frozen=True):
    """The write happened, and the row is now `lease`."""

    lease: Lease


class Refused(Struct, frozen=True):
    """A clause of the write's condition did not hold; nothing was changed. `row` is what stands there (None: no such row)."""

    row: Lease | MalformedRow | None


class LeaseTable(Protocol):
    """KCL's lease table. Raises LeaseTableNotFound, LeaseTableKeyUnexpected, LeaseTableUnavailable."""

    def scan(self) -> LeaseScan:
        """All leases. Eventually consistent: a row may be missing or seconds old, never half-written."""

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        """One row, strongly consistent; None when there is none (or it is no lease)."""

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        """Do one conditional write atomically. A response lost on the way is retried, so our own write may come back Refused."""


class PollRefusal(StrEnum):
    """Why a read brought nothing. Neither moves the position."""

    THROTTLED = "throttled"
    """The shard's read limit is used up: 5 calls or 2 MB a second, shared by all its consumers. Read again later."""
    NO_ANSWER = "no_answer"
    """The service failed, or its answer did not come, or not whole. Read again later."""
    ITERATOR_EXPIRED = "iterator_expired"
    """An iterator lives 300 s. The next read opens a new one after the last record that was fetched."""


class Stream(Protocol):
    """One Kinesis stream. Raises StreamNotFound, ShardNotFound, StreamKeyUnavailable, StreamAccessDenied, StreamUnavailable."""

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        """Every listed shard, closed ones included; with `at`, those open at that position (ListShards' ShardFilter)."""

    def describe(self) -> StreamDescription:
        """Which stream it is, among others of its name, and how it places records. StreamAccessDenied where only this may not be
        asked. An account may ask 20 times a second, for all its streams and consumers together: ask seldom.
        """

    def has_shard(self, shard_id: str) -> bool:
        """Whether the service still knows the shard, asked of the shard itself: a listing may lag."""

    def service_time(self) -> datetime:
        """A moment by the service's own clock, at most a second or two ago and never in its future: nothing that arrives from
        now on arrives before it. A worker's clock may be ahead, and a LATEST lease pinned by it would lose what it is ahead by.
        """

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        """Nothing is asked of the service until it is opened, or read."""


class ShardReader(Protocol):
    """One shard's records from a position on, in order. Raises what Stream raises, and CheckpointNotInStream.

    By polls (`sublet.polling`); a push (SubscribeToShard) would be another. It remembers where it is, whatever is refused.
    """

    def open(self) -> None:
        """Make ready to read, as the first read otherwise does: what that takes is not counted against the shard's read limit."""

    def read(self, limit: int) -> Page | PollRefusal:
        """The next page, of at most `limit` stream records. An empty one is normal, also far behind the tip; after one that
        `is_shard_end` nothing may be read."""


class Remembered(Struct, frozen=True):
    """What lease managers know from earlier ticks, of one moment.

    sightings   by lease key
    stream      the stream that the application's leases are of; None before the first tick
    dispatched  by lease key, the last dispatches
    unread      by lease key, what is known of shards that stand still
    definition  what all programs that pull go by, as text by name; None where nobody has defined it
    round       how often `dispatched` has been replaced
    announced   by worker id, what was said last, lapsed or not
    placement   how the stream was last described, by whichever process
    asked_at    when a process last set out to describe it
    """

    sightings: Mapping[str, Sighting]
    stream: StreamIdentity | None = None
    dispatched: Mapping[str, Dispatched] = {}
    unread: Mapping[str, Unread] = {}
    round: int = 0
    definition: Mapping[str, str] | None = None
    announced: Mapping[str, Announcement] = {}
    placement: Placement = Placement()
    asked_at: datetime | None = None


class SightingStore(Protocol):
    """What lease managers remember between ticks, apart from the lease table, whose rows are KCL's.

    Raises what LeaseTable raises, of a table of its own.
    """

    def load(self) -> Remembered:
        """Strongly consistent."""

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        """Replace all sightings. The last writer wins; that is safe (liveness)."""

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        """Keep the stream that the leases are of, if `instead_of` stands there now (None: none yet). Whether it did."""

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        """Say that the stream is being described, if nobody has said so since `seen`. Whether it was said: of many processes that
        look at once, one asks.
        """

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        """What a description that was asked for then has told. The last writer wins."""

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        """Keep what all programs go by that pull, if `instead_of` stands there now (None: none). Whether the new one stands."""

    def keep_dispatched(self, dispatched: Mapping[str, Dispatched], seen_round: int) -> bool:
        """Replace what is dispatched, if nobody has since `seen_round`: of two ticks that looked at once, one dispatches.

        Whether it is kept. What is too much to keep may be dropped: such a lease may be dispatched twice.
        """

    def keep_unread(self, unread: Mapping[str, Unread]) -> None:
        """Replace what is known of shards that stand still. The last writer wins; lost, an alarm comes a tick later."""

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        """Say it, instead of what this worker id said before, and forget what the `lapsed` ones said."""

    def begin_prompted(self, token: str, now: datetime) -> bool:
        """Begin the one tick that answers prompts. False: one is under way, by another token, since less than
        `PROMPTED_TICK_ENDS_WITHIN`; it is told to look again when it has looked.
        """

    def end_prompted(self, token: str) -> bool:
        """The tick of this token has looked. Whether it was told to look again, or nobody knows any more. If another tick has
        begun since, this one having lasted for too long, then that one has looked later.
        """


class WorkerReports(Protocol):
    """By which workers of a KCL 3.x fleet tell its leader that they live. Raises what LeaseTable raises.

    Those in the lease table come with its scan; others stand in a table of their own, which need not exist.
    """

    def load(self) -> tuple[WorkerReport, ...]:
        """All in the table of their own; none where there is no such table, or we may not read it."""

    def client_version(self) -> str | None:
        """By whose rules the fleet works, as kept beside that table; None where it is not, or we may not read it."""

    def get(self, worker_id: str) -> WorkerReport | None:
        """A worker's, where it stands: in the lease table, or else in the other."""

    def put(self, report: WorkerReport) -> None:
        """In its place, instead of the worker's last one there. Only where others report: see decisions.fleet_kind."""

    def remove(self, report: WorkerReport) -> None:
        """From its place, if it stands there."""


class Dispatcher(Protocol):
    """Starts lease workers."""

    def dispatch(self, items: Sequence[WorkerItem]) -> None:
        """Start one lease worker per item, at least once each, and return without waiting for them."""


class FailureDestination(Protocol):
    """Where records go that are given up. Raises DestinationRefused."""

    def put(self, batch: SetAsideBatch) -> None:
        """Returns when all of them are kept. If it raises, some may be kept: the same batch is put again, and then kept twice,
        or once where the destination can tell.
        """


class KeptBatch(Struct, frozen=True):
    """What a destination keeps under a name of its own; `problem` instead of the batch where that is not the application's, or
    cannot be read. `version`: of what was read, where a name may come to stand for something else.
    """

    name: str
    batch: SetAsideBatch | None
    problem: str = ""
    version: str = ""


class HeldBack(Struct, frozen=True):
    """A FIFO queue's message group that begins with as many messages that were left as the queue gives of it. What is behind them
    cannot be had."""

    group: str
    left: int


GIVEN_FOR = timedelta(minutes=15)
"""As long as a window: what a store has given to one, it gives to nobody else before."""


class Counted(NamedTuple):
    """About how many batches a store keeps: those that can be had now, and those that somebody was given."""

    available: int
    hidden: int = 0


class Removal(StrEnum):
    """What came of removing a batch."""

    REMOVED = "removed"
    STAYS = "stays"
    """Something else is kept under its name since it was read, or it has been given to somebody else since."""
    GONE = "gone"
    """Another redrive has removed it meanwhile: only a store tells that hides nothing from others."""


class SetAsideStore(Protocol):
    """A failure destination that gives back what it keeps. Raises DestinationRefused."""

    def counted(self) -> Counted:
        """What is hidden will be had again after GIVEN_FOR if it was given by `kept`."""

    def kept(self, application: str) -> Generator[KeptBatch | HeldBack, None, None]:
        """All that can be had, each when it is asked for, a shard's in order: in memory is one batch, and the names of others.
        What is not the application's may be told without being read. What cannot be had for what is before it comes last.

        Each is to be removed or left before the next is asked for. Nobody else is given it for GIVEN_FOR; a store that cannot
        promise that says so. Once this is closed, or has raised, what it has not given can be had by others.
        """

    def remove(self, kept: KeptBatch) -> Removal:
        """It is handled, and need not be kept: what was read, and nothing else. To remove what is gone is no error."""

    def leave(self, kept: KeptBatch) -> None:
        """It stays, and anybody may be given it again."""


class Clock(Protocol):
    """The time, as an argument. Both are UTC-aware, and alike while nobody touches the machine's clock."""

    def now(self) -> datetime:
        """The moment, by the wall clock: for what is written down, or compared with other machines' moments. It may jump."""

    def steady(self) -> datetime:
        """For durations: never set, never back. It stands still while the machine is suspended."""


class Signal(Protocol):
    """Set once, never cleared."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: timedelta) -> bool:
        """Sleep until set or for `timeout`; whether it is set. This is the only way that the engine sleeps."""

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when this is set, or at once if it is set already. Returns a function that takes it back.

        The thread that sets the signal makes the call, and may be in a signal handler: the callback takes no lock and raises
        nothing.
        """


class Task(Protocol[T_co]):
    """Work going on beside the caller."""

    def result(self) -> T_co:
        """Wait for it; its value, or the exception that it raised."""


class Tasks(Protocol):
    """Concurrency, so that a simulation can decide who runs next."""

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        """Start `work` beside the caller."""

    def lock(self) -> AbstractContextManager[object]:
        """A mutual exclusion, not reentrant."""

    def slots(self, count: int) -> AbstractContextManager[object]:
        """A semaphore that `count` holders may have at once."""

    def signal(self) -> Signal: ...


class Metrics(Protocol):
    """Numbers for dashboards and alarms. Never raises."""

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None) -> None:
        """One number, of the whole application or of one shard."""

    def flush(self) -> None:
        """Called at the end of a tick or window, and at least each minute within."""


class Log(Protocol):
    """Structured log lines: a constant message and fields. Never given a payload or a credential. A field may not be named as an
    attribute of a `logging.LogRecord` is, such as `name`: Python's logging refuses it.
    """

    def info(self, message: str, **fields: object) -> None: ...

    def warning(self, message: str, **fields: object) -> None: ...

    def error(self, message: str, **fields: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What an application needs of the world, made in one place: `sublet.aws.ports.aws_ports`, `sublet.memory.memory_ports`.

    Beside these a lease manager needs a Dispatcher, and a lease worker a Handler: those are the runtime's and the user's.
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
    """None where there is no setting `on_failure`: then nothing is ever given up."""
    reports: WorkerReports | None = None
    """None: a KCL 3.x leader is not told of us, and assigns us nothing."""
