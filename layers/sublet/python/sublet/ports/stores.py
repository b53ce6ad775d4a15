"""What is kept beside the leases, in the sightings table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from sublet.protocol.stream_info import Placement

if TYPE_CHECKING:
    from sublet.decisions.load.sketch import ShardSketch
    from sublet.decisions.manager.dispatching import DispatchedWorker
    from sublet.decisions.manager.joins_and_drains import Announcement
    from sublet.decisions.manager.liveness import Sighting
    from sublet.decisions.manager.unread_shards import UnreadShard
    from sublet.decisions.streams.chosen_streams import KnownStream
    from sublet.protocol.control import Control
    from sublet.protocol.snapshot import Snapshot
    from sublet.protocol.stream_identity import StreamIdentity
    from sublet.protocol.stream_key import StreamKey


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
    dispatched: Mapping[str, DispatchedWorker] = {}
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

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
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
        """Store the sketch if its shard is hot and among the ten hottest (decisions.load.sketch_places), merged with
        what is stored for the same half hour. Returns whether it was stored.
        """

    def sketches(self) -> tuple[ShardSketch, ...]:
        """All sketches that can be read, old ones too."""
