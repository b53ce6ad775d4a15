"""What the console needs of the applications that it shows. The command composes it over AWS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from sublet.handler import Handler
from sublet.operate.console.change_audit import ChangeAudit, MemoryChangeAudit
from sublet.operate.inspection import Inspection
from sublet.operate.rules.hot_shards import HotShard
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting
from sublet.ports import FailureDestination, Ports, SetAsideStore, SnapshotStore
from sublet.protocol.stream_identity import StreamIdentity
from sublet.settings import Settings


@dataclass(frozen=True, slots=True)
class SetAsidePlace:
    """The place where an application's failing and skipped records are kept.

    name     as `sublet redrive --from` takes it
    waiting  returns what is kept there; raises SubletError
    store    for a redrive; None for a topic, which keeps nothing
    """

    name: str
    destination: FailureDestination
    waiting: Callable[[], SetAsideWaiting]
    store: SetAsideStore | None = None


@dataclass(frozen=True, slots=True)
class ConsoleRedriver:
    """The handler that the console was started with. It makes one redrive at a time. The settings have its name."""

    handler: Handler
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class OpenApplication:
    """One application, to look at and to change.

    stream      the stream's name; None if there are several, or if it is not known: only the lease table can then be
                shown
    known       the stream of its leases, as lease managers have stored it; None if they have not
    redriver    None if the console was started without a handler
    heat        returns every open shard's verdict, as `sublet hot` gives it, the hottest first; raises SubletError.
                None if it cannot be known
    inspection  asks CloudWatch for the figures of the stream and the application; None: they are not asked for
    audit       keeps what people have changed through the console
    several     the names of the streams that are shown, if the application reads several
    """

    name: str
    stream: str | None
    settings: Settings
    ports: Ports
    snapshots: SnapshotStore
    aside: SetAsidePlace
    known: StreamIdentity | None = None
    inspection: Inspection | None = None
    redriver: ConsoleRedriver | None = None
    heat: Callable[[], Sequence[HotShard]] | None = None
    several: tuple[str, ...] = ()
    audit: ChangeAudit = field(default_factory=MemoryChangeAudit)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams; empty if none is known."""
        return self.several or (() if self.stream is None else (self.stream,))

    @property
    def stream_option(self) -> tuple[str, ...]:
        """Returns the option --stream for a command in a terminal, which without it would act on all of several
        streams.
        """
        return ("--stream", self.streams[0]) if len(self.streams) == 1 else ()


class VisibleApplications(Protocol):
    """The applications that an operator can see."""

    def names(self) -> Sequence[str]:
        """Returns the names in order. Raises what Account raises."""

    def open(self, name: str) -> OpenApplication | None:
        """Opens an application. None if `names` would not list it. Makes only a few calls. Raises what Account
        raises.
        """
