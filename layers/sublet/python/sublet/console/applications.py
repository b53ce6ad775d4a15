"""What the console needs of the applications that it shows. The command composes it over AWS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from sublet.decisions.hot_shards import HotShard
from sublet.decisions.set_aside_waiting import SetAsideWaiting
from sublet.handler import Handler
from sublet.inspection import Inspection
from sublet.ports import FailureDestination, Ports, SetAsideStore, SnapshotStore
from sublet.protocol.stream_identity import StreamIdentity
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class SetAsidePlace:
    """Where an application's records are set aside, and skipped ones too.

    name     as `sublet redrive --from` takes it
    waiting  what it keeps; raises SubletError
    store    for a redrive; None: a topic keeps nothing
    """

    name: str
    destination: FailureDestination
    waiting: Callable[[], SetAsideWaiting]
    store: SetAsideStore | None = None


@dataclass(frozen=True, slots=True)
class Redriver:
    """The handler that the console was started with, for one redrive at a time. Its name is in the application's settings."""

    handler: Handler
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class OpenApplication:
    """One application, for looking at it and moving it.

    stream      the stream's name; None if it is not known: then only what the lease table says can be shown, unless there are
                several
    known       the stream of its leases, as lease managers have stored it; None if they have not
    redriver    None: the console was started without a handler
    heat        every open shard's verdict, as `sublet hot` gives it, the hottest first; raises SubletError. None: not known
    inspection  asks CloudWatch for the figures of the stream and the application; None: they are not asked for
    several     the names of the streams that are shown, of an application that reads several
    """

    name: str
    stream: str | None
    settings: Settings
    ports: Ports
    snapshots: SnapshotStore
    aside: SetAsidePlace
    known: StreamIdentity | None = None
    inspection: Inspection | None = None
    redriver: Redriver | None = None
    heat: Callable[[], Sequence[HotShard]] | None = None
    several: tuple[str, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        """Returns nothing if no stream is known."""
        return self.several or (() if self.stream is None else (self.stream,))

    @property
    def stream_option(self) -> tuple[str, ...]:
        """Returns the option --stream for a command in a terminal. Without it, the command acts on all of several streams."""
        return ("--stream", self.streams[0]) if len(self.streams) == 1 else ()


class Applications(Protocol):
    """The applications that an operator can see."""

    def names(self) -> Sequence[str]:
        """Returns the names in order. Raises what Account raises."""

    def open(self, name: str) -> OpenApplication | None:
        """Returns None if `names` would not list it. Makes a few calls at most. Raises what Account raises."""
