"""The simulation's failure destinations: the real adapters on models of the services, whose calls may fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any

from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from sublet.aws.set_aside.failure_destinations import SnsDestination, SqsDestination
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.errors import DestinationRefused
from sublet.ports import FailureDestination
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.failure_document_read import batch_of_message, batch_of_object
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.doubles.s3_model import S3Model
from tests.doubles.sns_model import SnsModel
from tests.doubles.sqs_model import SqsModel

Members = frozenset[tuple[str, int]]
"""Shard and index of each record of a document."""

IDENTITY = r"-[0-9a-f]{64}(?=\.)"
"""The part of a key that 0.2 does not know."""

ENDPOINT = "https://given-up"
CHANGES = frozenset({"send_message", "delete_message", "publish", "put_object", "delete_object"})


class Kind(StrEnum):
    QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
    FIFO_QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up.fifo"
    TOPIC = "arn:aws:sns:eu-west-1:123456789012:given-up"
    FIFO_TOPIC = "arn:aws:sns:eu-west-1:123456789012:given-up.fifo"
    BUCKET = "arn:aws:s3:::given-up/aside"


@dataclass(slots=True)
class Kept:
    """What the destination holds, which records are handled, and whether any record is in neither.

    dies_after_put  the probability that a worker dies once its batch is stored, before its checkpoint
    stops_in_put    the probability that it pauses before: another worker may own the lease when it goes on
    """

    world: World
    kind: Kind
    dies_after_put: float
    stops_in_put: float
    after_death: Callable[[], None] = lambda: None
    """Sometimes a death causes a deployment."""
    handled: set[tuple[str, int]] = field(default_factory=set)
    """By a handler, in the fleet or in a redrive."""
    put: int = 0
    grouped: dict[tuple[str, int, int], set[Members]] = field(default_factory=dict)
    """The contents of each batch that was set aside, by its first record and size."""
    regrouped: int = 0
    """How many had the same first record and size as another one, but other records."""
    excused: set[tuple[str, int]] = field(default_factory=set)
    """Records that workers of version 0.2 have overwritten, which name objects by their first position alone."""
    beaten: set[Process] = field(default_factory=set)
    """Redrives that tried to remove an object which another had removed: they must stop."""
    queue: SqsModel = field(init=False)
    topic: SnsModel = field(init=False)
    bucket: S3Model = field(init=False)
    _read: dict[str | bytes, Members] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = Random(self.world.seed)
        is_fifo = self.kind in (Kind.FIFO_QUEUE, Kind.FIFO_TOPIC)
        arn = Kind.FIFO_QUEUE if is_fifo else Kind.QUEUE
        twice = chance.choice((0, 0.02, 0.2))
        self.queue = SqsModel(arn, self.world.scheduler.now, chance, gives_twice=twice)
        self.topic = SnsModel(self.queue, delivers_twice=twice)
        self.bucket = S3Model()

    # What a process is given

    def destination(self, process: Process) -> FailureDestination:
        is_topic = self.kind in (Kind.TOPIC, Kind.FIFO_TOPIC)
        topic = SnsDestination(self._client(process, self.topic), self.kind)
        return CheckedDestination(self, process, topic if is_topic else self.store(process))

    def store(self, process: Process) -> SqsDestination | S3Destination:
        if self.kind is Kind.BUCKET:
            return S3Destination(self._client(process, self.bucket), "given-up", "aside")
        return SqsDestination(self._client(process, self.queue), self.queue.arn)

    def _client(self, process: Process, model: object) -> Callable[[], Any]:
        return lambda: SimClient(self, process, model)

    # What it holds

    def documents(self) -> dict[str, str | bytes]:
        """By identity."""
        if self.kind is Kind.BUCKET:
            return {key: body for key, (_, body) in self.bucket.objects.items()}
        self.topic.deliver()
        under_way = {f"under way {n}": body for n, (_, body) in enumerate(self.topic.under_way)}
        return {**{message.id: message.body for message in self.queue.messages}, **under_way}

    def members(self, body: str | bytes) -> Members:
        found = self._read.get(body)
        if found is None:
            batch = batch_of_message(body) if isinstance(body, str) else batch_of_object(body)
            found = self._read[body] = self.members_of(batch)
        return found

    def members_of(self, batch: SetAsideBatch) -> Members:
        truth = self.world.ledger.shards[batch.shard_id]
        return frozenset((batch.shard_id, truth.index_of(record)) for record in batch.records)

    def nowhere(self, members: Members) -> Members:
        """The records that no handler has finished and no document holds."""
        missing = members - self.handled - self.excused
        for body in reversed(self.documents().values()) if missing else ():
            missing -= self.members(body)
            if not missing:
                break
        return missing

    def lost(self) -> Members:
        """Records covered by a checkpoint, but neither handled nor stored."""
        covered = set()
        for shard_id, truth in self.world.ledger.shards.items():
            checkpoint = self.world.watch.checkpoints.get(shard_id)
            count = 0 if checkpoint is None else truth.covered_by(checkpoint)
            covered |= {(shard_id, index) for index in range(count) if truth.is_required(index)}
        return self.nowhere(frozenset(covered))

    # Changes

    def changed(self, process: Process, before: dict[str, str | bytes]) -> None:
        after = self.documents()
        for name, body in before.items():
            if after.get(name) is not body and not name.startswith("under way"):
                self._gone(process, self.members(body), is_deleted=name not in after)

    def _gone(self, process: Process, members: Members, *, is_deleted: bool) -> None:
        missing = sorted(self.nowhere(members))
        if missing and is_deleted:
            self.world.fail(f"a redrive has removed {missing}, which no handler has done, and which are nowhere else")
        if process.is_older:
            self.excused.update(missing)
            return
        for shard_id, index in missing:
            truth = self.world.ledger.shards[shard_id]
            checkpoint = self.world.watch.checkpoints.get(shard_id)
            self.world.note(process.name, f"overwrites {index} of {shard_id[-4:]}, which is nowhere now")
            if checkpoint is not None and index < truth.covered_by(checkpoint):
                self.world.fail(f"record {index} of {shard_id} is overwritten, though the checkpoint covers it")
            truth.finished.discard(index)
            truth.require(truth.required_from)


@dataclass(frozen=True, slots=True)
class CheckedDestination:
    """Tells the ledger which records the destination holds, whatever it has answered."""

    kept: Kept
    process: Process
    real: FailureDestination

    def put(self, batch: SetAsideBatch) -> None:
        world = self.kept.world
        world.note(
            self.process.name,
            f"sets aside {sorted(index for _, index in self.kept.members_of(batch))} of {batch.shard_id[-4:]}: "
            f"{batch.condition}",
        )
        if world.has_faults and world.chance.random() < self.kept.stops_in_put:
            failover = world.settings.failover_time.total_seconds()
            self.process.frozen_until = world.scheduler.now_us + int(world.chance.uniform(0.2, 3) * failover * 10**6)
            world.note(self.process.name, "stands still before it")
        try:
            self.real.put(batch)
        except DestinationRefused:
            self._tell(batch)
            raise
        self._tell(batch)
        if world.has_faults and world.chance.random() < self.kept.dies_after_put:
            world.note(self.process.name, "dies after it has set records aside")
            self.kept.after_death()
            world.scheduler.kill(self.process)
            world.scheduler.check_alive()

    def _tell(self, batch: SetAsideBatch) -> None:
        kept, ledger = self.kept, self.kept.world.ledger
        members = kept.members_of(batch)
        kept.put += 1
        first, size = min(members), len(members)
        others = kept.grouped.setdefault((*first, size), set())
        kept.regrouped += any(other != members for other in others)
        others.add(members)
        for shard_id, index in members - kept.nowhere(members):
            ledger.shards[shard_id].finished.add(index)


@dataclass(frozen=True, slots=True)
class SimClient:
    """A service's client in one process. Requests and replies get lost, and the client retries or gives up."""

    kept: Kept
    process: Process
    model: Any

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    def get_paginator(self, _: str) -> SimClient:
        return self

    def paginate(self, **request: object) -> Iterator[object]:
        for page in self.model.paginate(**request):
            self.kept.world.step(self.process)
            yield page

    def _call(self, name: str, **request: object) -> Any:
        world = self.kept.world
        world.step(self.process)
        if world.strikes(Fault.LOST_REQUEST):
            raise EndpointConnectionError(endpoint_url=ENDPOINT)
        reply = self._ask(name, request)
        if world.strikes(Fault.LOST_RESPONSE):
            world.note(self.process.name, f"the reply to its {name} gets lost")
            world.step(self.process)
            if world.chance.random() < 0.3:
                raise ReadTimeoutError(endpoint_url=ENDPOINT)
            reply = self._ask(name, request)
        world.step(self.process)
        return reply

    def _ask(self, name: str, request: dict[str, object]) -> Any:
        kept = self.kept
        if name == "put_object" and self.process.is_older:
            request["Key"] = re.sub(IDENTITY, "", str(request["Key"]))
        if name == "delete_object" and request["Key"] not in kept.bucket.objects:
            kept.beaten.add(self.process)
        before = kept.documents() if name in CHANGES else {}
        reply = getattr(self.model, name)(**request)
        if name in CHANGES:
            kept.changed(self.process, before)
        return reply
