"""The whole engine in memory, as one call: lease manager, leases, polls, deaggregation, handler, checkpoints.

Time is a memory clock that moves only when all tasks wait: thirty seconds of backoff take none. Every run is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Unpack

from sublet.decisions.session.window import LeaseReport, SessionOutcome
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.handler import Batch, Handler, UserHandler
from sublet.handlers.contract import CONTRACT
from sublet.handlers.load import handler_of
from sublet.operate.redrive import Redrive, RedriveProgress
from sublet.payloads.decoding import decoder_of_setting
from sublet.ports import Ports
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.stream_info import RecordDistribution
from sublet.settings import HandlerContract, Settings, setting_values
from sublet.system.tracing import traces_of
from sublet.testing.batches import STREAM, Given, arn_of, keyed
from sublet.testing.memory import (
    FakeClock,
    MemoryDestination,
    MemoryDispatcher,
    MemoryLeaseTable,
    MemoryLog,
    MemoryMetrics,
    MemorySchemaRegistry,
    MemorySightingStore,
    MemoryStream,
    memory_ports,
)
from sublet.testing.turn_taking import TurnTaking

if TYPE_CHECKING:
    from sublet.settings.keywords import AnyKeywords

TICK = timedelta(minutes=1)
"""The time between two ticks of the lease manager, as deployed."""

TICKS_MAX = 1000
"""Many more than a handler needs that makes any progress, unless a failure policy takes longer."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """The result of `consume`."""

    checkpoints: Mapping[str, Checkpoint]
    """The checkpoints by shard id, from the lease table."""
    batches: tuple[Batch, ...]
    """The batches of all calls of the handler, in order, with those that failed."""
    retries: int
    """Calls that were repeated because one had failed."""
    elapsed: timedelta
    """The time that passed on the memory clock."""
    set_aside: tuple[SetAsideBatch, ...] = ()
    """The batches set aside, in order, each with records, condition, attempts and the failure's type."""


def consume(
    handler: UserHandler, records: Iterable[Given], *, shards: int = 1, **settings: Unpack[AnyKeywords]
) -> Consumed:
    """Put the records and let the handler consume them, through the whole engine, until each is handled.

    `handler`: a function, an object with `handle`, a module, or `module:function`. `settings`: any of Settings, by
    name.

    If the handler fails for good, `handler_attempts` times in a row, its last exception is raised here. But if the
    settings limit the attempts, records are retried until they are set aside, in memory, whatever `on_failure` names.
    """
    consumer = MemoryConsumer(shards=shards, **settings)
    consumer.put(*records)
    return consumer.consume(handler)


class MemoryConsumer:
    """A stream and an application in memory. Leases and checkpoints last from one `consume` to the next.

    stream       put, split, merge and trim between two calls of `consume`
    clock        stands still between them unless you move it: `clock.advance(timedelta(days=1))`
    destination  takes what is set aside, whatever `on_failure` names; refuses the next three calls with
                 `destination.refusals = 3`
    schemas      the schema registry, of Glue's kind, for `payload_format="glue"`
    """

    def __init__(self, *, shards: int = 1, **settings: Unpack[AnyKeywords]) -> None:
        arn = arn_of(settings.get("stream", STREAM))
        self.settings = Settings(
            **{"application": "tested", "stream": STREAM, "stream_arn": arn, **setting_values(settings)}
        )
        self.clock = FakeClock()
        self.stream = MemoryStream(shards, clock=self.clock, name=self.settings.stream)
        self.table = MemoryLeaseTable()
        self.log = MemoryLog()
        self.metrics = MemoryMetrics()
        self.destination = MemoryDestination()
        self.schemas = MemorySchemaRegistry()
        self._sightings = MemorySightingStore()

    def put(self, *records: Given) -> list[str]:
        """Puts each record into the shard of its partition key, and returns their sequence numbers. A record without a
        key, `(None, b"...")`, switches the stream to distributing records itself, since no other stream takes it.
        """
        given = keyed(records)
        if any(key is None for key, _ in given):
            self.stream.distribution = RecordDistribution.AUTO
        return self.stream.put_all(given)

    def consume(self, handler: UserHandler, *, handler_contract: HandlerContract | str | None = None) -> Consumed:
        """Run until every record of the stream is handled or set aside, or raise the handler's exception if it fails
        for good. `handler_contract`: this handler's, if it differs from the settings'.
        """
        settings = self._settings_for(handler_contract)
        calls = _Calls(handler_of(handler, settings), gives_up=settings.gives_up)
        since, aside = self.clock.steady(), len(self.set_aside)
        ports, dispatcher = self._ports(), MemoryDispatcher()
        manager = LeaseManager(ports, dispatcher, settings)
        read: set[str] = set()
        with self._worker(ports, calls, settings) as worker:
            for tick in range(ticks := _ticks_max(settings)):
                manager.tick()
                for item in dispatcher.take():
                    report = worker.run_window(item, f"tick-{tick}", self.clock.steady() + settings.window)
                    calls.check(report.leases)
                    read.update(lease.lease_key for lease in report.leases if _is_read(lease))
                if {shard.shard_id for shard in self.stream.list_shards() if shard.is_open} <= read:
                    elapsed = self.clock.steady() - since
                    return Consumed(
                        self.checkpoints, tuple(calls.batches), calls.failed, elapsed, self.set_aside[aside:]
                    )
                self.clock.advance(TICK)
        raise AssertionError(
            f"not consumed in {ticks} ticks, a minute each; checkpoints: {self.checkpoints}"
        ) from calls.last

    def redrive(
        self, handler: UserHandler, *, handler_contract: HandlerContract | str | None = None
    ) -> RedriveProgress:
        """Pass what is set aside to the handler again, as `sublet redrive` does, and keep what fails. Returns how many
        batches are `done`, and how many have `failed`.
        """
        settings = self._settings_for(handler_contract)
        decode = decoder_of_setting(settings.payload_format, self.schemas)
        handling = handler_of(handler, settings)
        return Redrive(self.destination, handling, settings, self.clock, self.log, decode=decode).run()

    @contextmanager
    def _worker(self, ports: Ports, calls: Handler, settings: Settings) -> Iterator[LeaseWorker]:
        worker = LeaseWorker(ports, calls, settings)
        try:
            yield worker
        finally:
            worker.close()
            if isinstance(ports.tasks, TurnTaking):
                ports.tasks.sleep(timedelta(0))  # a turn for the threads that end now

    def _settings_for(self, handler_contract: HandlerContract | str | None) -> Settings:
        if handler_contract is None:
            return self.settings
        return replace(self.settings, **setting_values({"handler_contract": handler_contract}))

    @property
    def checkpoints(self) -> dict[str, Checkpoint]:
        """The checkpoints by shard id, from the lease table."""
        return {lease.shard_id: lease.checkpoint for lease in self.table.scan().leases}

    @property
    def set_aside(self) -> tuple[SetAsideBatch, ...]:
        """The batches set aside so far, in order, with the reasons."""
        return tuple(self.destination.taken)

    def _ports(self) -> Ports:
        return memory_ports(
            self.stream,
            self.table,
            sightings=self._sightings,
            clock=self.clock,
            tasks=TurnTaking(self.clock),
            chance=Random(0),  # noqa: S311 - the same choices in every run
            metrics=self.metrics,
            log=self.log,
            destination=self.destination,
            schemas=self.schemas,
            traces=traces_of(self.settings, self.log),
        )


def _is_read(lease: LeaseReport) -> bool:
    """Whether the window was at the shard's tip when it ended."""
    at_tip = lease.outcome in (SessionOutcome.CAUGHT_UP, SessionOutcome.WINDOW_ENDED)
    return at_tip and lease.millis_behind_latest == 0


def _ticks_max(settings: Settings) -> int:
    """Each attempt may take a window of its own, and records age by a minute per tick."""
    age = settings.maximum_record_age or timedelta(0)
    return TICKS_MAX + max(settings.maximum_retry_attempts, 0) + age // TICK


@dataclass(slots=True)
class _Calls:
    """The Handler port around the user's handler, which also keeps a list of its calls."""

    handler: Handler
    gives_up: bool
    """Failing records are set aside in the end, so no failure of `handle` is for good."""
    batches: list[Batch] = field(default_factory=list)
    failed: int = 0
    last: BaseException | None = None
    failures: dict[tuple[str, str], BaseException] = field(default_factory=dict)
    """The last exception per shard and handler function, unless that function has returned since."""

    def handle(self, batch: Batch) -> None:
        self.batches.append(batch)
        with self._noted(batch.shard_id, "handle"):
            self.handler.handle(batch)

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        with self._noted(shard_id, "lease_acquired"):
            self.handler.lease_acquired(shard_id, checkpoint, pending)

    def lease_releasing(self, shard_id: str) -> None:
        with self._noted(shard_id, "lease_releasing"):
            self.handler.lease_releasing(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        with self._noted(shard_id, "lease_lost"):
            self.handler.lease_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self.failures.pop((shard_id, "handle"), None)  # all is handled by now
        with self._noted(shard_id, "shard_ended"):
            self.handler.shard_ended(shard_id)

    @contextmanager
    def _noted(self, shard_id: str, call: str) -> Iterator[None]:
        try:
            yield
        except BaseException as failure:
            self.failed += 1
            self.last = failure
            self.failures[shard_id, call] = failure
            raise
        self.failures.pop((shard_id, call), None)

    def check(self, leases: Iterable[LeaseReport]) -> None:
        """Raise a lasting failure: an exception for a lease that has been left, with no later call that returned."""
        for lease in leases:
            standing = {call: self.failures.pop((lease.lease_key, call), None) for call in CONTRACT}
            if self.gives_up or lease.outcome is not SessionOutcome.HANDLER_FAILED:
                del standing["handle"]  # its records are checkpointed or set aside, or will be
            for call, failure in standing.items():
                if failure is not None:
                    failure.add_note(f"raised by the handler's {call}, for {lease.lease_key}")
                    raise failure
