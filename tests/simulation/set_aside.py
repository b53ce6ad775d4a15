"""Worlds in which many records are set aside, in each kind of destination, and redriven beside the running fleet.

Handlers never handle some records until a deployment fixes them (and breaks them for others); workers die in calls, and
between setting aside and the checkpoint, so that the same records are grouped differently the next time; deployments
change the settings that group them. Redrives run beside all that, sometimes two at once, and are sometimes killed.

The promise: each record covered by a checkpoint was handled or is in the destination, and no redrive removes an
unhandled record. Nor does a redrive receive a queue's message twice, however long it takes: at the end the queue has a
dead-letter queue that would take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import structs
from sublet.errors import BatchItemsFailed, DestinationRefused
from sublet.handler import Batch
from sublet.handlers.lambda_context import FunctionIdentity
from sublet.handlers.lambda_event import LambdaEventHandler
from sublet.operate.redrive import Redrive
from sublet.ports import GIVEN_FOR
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.records import UserRecord
from sublet.settings import HandlerContract
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handlers import HandlerFailed
from sublet.testing.simulation.ports import SimLog
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process, SkewedClock
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.giving_up import BY_HAND
from tests.simulation.kept_aside import Kept, Kind
from tests.simulation.side_by_side import Keys

STREAM_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/memory"
REDRIVES_AT_ONCE = 2
FACTORS = (1, 1, 2, 3, 10)
ROUNDS = 6
"""Redrives at the end, each of which sees what was hidden before."""

LONG_REDRIVE = 40 * 60 * SECOND
LONG_CALL = 8 * 60 * SECOND


@dataclass(frozen=True, slots=True)
class Deployed:
    """`bad_each`, `bad_at`: the puts that its handler never handles; none if `bad_each` is 0."""

    settings: Mapping[str, Any]
    bad_each: int
    bad_at: int = 0

    def fails(self, record: UserRecord) -> bool:
        return self.bad_each > 0 and int(record.data) % self.bad_each == self.bad_at

    @property
    def contract(self) -> HandlerContract:
        return HandlerContract(self.settings["handler_contract"])


def draw_deployed(chance: Random) -> Deployed:
    each = chance.choice((3, 5, 11))
    settings = {
        "parallelization_factor": chance.choice(FACTORS),
        "batch_size": chance.choice((1, 2, 2, 3, 5, 1000)),
        "bisect_batch_on_function_error": chance.random() < 0.3,
        "maximum_retry_attempts": chance.choice((0, 0, 1, 3)),
        "handler_attempts": chance.choice((4, 10)),
        "handler_contract": chance.choice((HandlerContract.BATCH, HandlerContract.LAMBDA_EVENT)),
        "report_batch_item_failures": True,
    }
    return Deployed(settings, each, chance.randrange(each))


@dataclass(slots=True)
class AsideWorld:
    """The state that one world's fleet, deployments and redrives share."""

    kind: Kind
    chance: Random
    deployed: Deployed
    keys: Keys = field(default_factory=Keys)
    kept: Kept = field(init=False)
    redrives: int = 0
    running: set[Process] = field(default_factory=set)
    """Redrives that have not ended."""
    longer: int = 0
    """How much longer each call of a redrive takes, in microseconds."""

    # The wiring

    def wiring(self) -> Wiring:
        return Wiring(
            handler=lambda _, process: AsideHandler(self, process, self.deployed),
            destination=lambda _, process: self.kept.destination(process),
            settings=lambda settings: replace(settings, **self.deployed.settings),
            begin=self.begin,
            at_the_end=self.at_the_end,
            has_rules=False,  # other worlds check the same writes against their rules
        )

    def begin(self, world: World) -> None:
        chance = self.chance
        dies, stops = chance.choice((0, 0.2, 0.5)), chance.choice((0, 0, 0.1, 0.3))
        self.kept = Kept(world, self.kind, dies, stops, self._deploy_another_factor)
        world.at(0, "deployments", lambda: self._deploy_at_times(world, chance.choice((30, 120, 400))))
        world.at(0, "redrives", lambda: self._redrive_at_times(world, chance.choice((20, 60, 150))))

    def _deploy_at_times(self, world: World, every: int) -> None:
        while world.has_faults:
            world.scheduler.sleep(int(self.chance.uniform(0.3, 2) * every * SECOND))
            self.deployed = draw_deployed(self.chance)
            world.note("operator", f"deploys {dict(self.deployed.settings)}")

    def _deploy_another_factor(self) -> None:
        """Records in flight when a worker died are grouped differently the next time."""
        if self.chance.random() < 0.5:
            factor = self.chance.choice(FACTORS)
            settings = {**self.deployed.settings, "parallelization_factor": factor}
            self.deployed = replace(self.deployed, settings=settings)
            self.kept.world.note("operator", f"deploys parallelization_factor {factor}")

    def _redrive_at_times(self, world: World, every: int) -> None:
        while True:
            world.scheduler.sleep(int(self.chance.uniform(0.3, 2) * every * SECOND))
            if not world.has_faults:
                return
            self.running = {process for process in self.running if not process.is_dead}
            for _ in range(self.chance.choice((1, 1, 2))):
                if len(self.running) < REDRIVES_AT_ONCE:
                    self._redrive(world)

    # A redrive

    def _redrive(self, world: World) -> None:
        """With the current handler, or a fixed one. Some are killed in the middle."""
        chance, deployed = self.chance, self.deployed
        if chance.random() < 0.5:
            deployed = replace(deployed, bad_each=0)
        process = self.start(world, deployed, is_chaotic=True)
        if chance.random() < 0.4:
            world.at(
                world.scheduler.now_us + int(chance.uniform(0, 10) * SECOND),
                f"killer of {process.name}",
                lambda: self._kill(world, process),
            )

    def _kill(self, world: World, process: Process) -> None:
        if process in self.running:
            world.note(process.name, "is killed")
            world.faults["redrive killed"] = world.faults.get("redrive killed", 0) + 1
            world.scheduler.kill(process)

    def start(self, world: World, deployed: Deployed, *, is_chaotic: bool) -> Process:
        self.redrives += 1
        process = world.process(f"redrive-{self.redrives}", chaotic=is_chaotic)
        settings = replace(world.settings, **deployed.settings)
        redrive = Redrive(
            self.kept.store(process),
            AsideHandler(self, process, deployed),
            settings,
            SkewedClock(world.scheduler, process),
            SimLog(world, process),
        )

        def run() -> None:
            try:
                world.note(process.name, f"ends with {redrive.run()}")
            except DestinationRefused as refused:
                world.note(process.name, f"is refused: {refused}")
            except Exception as error:  # noqa: BLE001 - a redrive that breaks is a finding
                world.fail(f"{process.name} raised {error!r}")
            self.running.discard(process)

        self.running.add(process)
        world.scheduler.spawn(process, run)
        return process

    # The end

    def at_the_end(self, world: World) -> str | None:
        """Every record is handled or stored, and a redrive with a handler that handles everything leaves nothing."""
        if lost := self.kept.lost():
            return f"records that a checkpoint covers are neither handled nor set aside: {sorted(lost)}"
        world.faults["documents set aside"] = self.kept.put
        world.faults["documents regrouped"] = self.kept.regrouped
        mended = replace(self.deployed, bad_each=0)
        self._wait_for_all(world)
        for _ in range(ROUNDS):
            if not self.kept.documents() or world.scheduler.is_stopped:
                break
            self._have_dead_letter_queue()
            self.start(world, mended, is_chaotic=False)
            self._wait_for_all(world)
            if taken := self.kept.queue.dead_letters:
                return f"a redrive has received {len(taken)} messages twice, and a dead-letter queue took them"
            if self.kept.documents():
                world.scheduler.run_until(world.scheduler.now_us + GIVEN_FOR // MICROSECOND + 60 * SECOND)
        if world.violation is not None:
            return None
        if left := self.kept.documents():
            return f"{len(left)} documents are left by redrives whose handler does everything"
        if lost := self.kept.lost():
            return f"records that were set aside have not been handled: {sorted(lost)}"
        return None

    def _have_dead_letter_queue(self) -> None:
        """From now on the queue gives every message once, and in half of the worlds the redrive takes long."""
        queue = self.kept.queue
        queue.gives_twice, queue.max_receive_count = 0, 1
        for message in queue.messages:
            message.receives = 0
        if self.chance.random() < 0.5:
            self.longer = min(LONG_CALL, LONG_REDRIVE // len(self.kept.documents()))

    def _wait_for_all(self, world: World) -> None:
        """Until no redrive goes on. One of the time with faults may be in a call that lasts longer than a batch stays
        hidden, or with a handler that fails: it receives messages twice, as documented.
        """
        while any(not redrive.is_dead for redrive in self.running) and not world.scheduler.is_stopped:
            world.scheduler.run_until(world.scheduler.now_us + 10 * SECOND)


@dataclass(slots=True)
class AsideHandler:
    """It takes time for each record, so that calls overlap. In the fleet it dies at times, and in a redrive it may take
    longer than a batch stays hidden.
    """

    aside: AsideWorld
    process: Process
    deployed: Deployed

    def handle(self, batch: Batch) -> None:
        world = self.aside.kept.world
        world.scheduler.check_alive()
        if self.process in self.aside.kept.beaten:
            world.fail("a redrive goes on beside another, which removes what this one handles")
        calling = nullcontext() if batch.is_redrive else self.aside.keys.calling(world, self.process, batch)
        with calling:
            if self.deployed.contract is HandlerContract.LAMBDA_EVENT:
                self._as_lambda(batch)
            else:
                self._as_batch(batch)

    def _as_batch(self, batch: Batch) -> None:
        """Raises, so that the whole batch is retried, or reports how far it has come."""
        failing = self._try(batch)
        if failing and failing[0] > 0 and self._chance.random() < 0.5:
            self._finish(batch, failing[0])
            batch.checkpoint(batch.records[failing[0] - 1])
            raise BatchItemsFailed("bad")
        if failing:
            raise HandlerFailed("bad")
        self._finish(batch, len(batch.records))

    def _as_lambda(self, batch: Batch) -> None:
        def function(event: Mapping[str, Any], context: object) -> Mapping[str, Any]:
            if getattr(context, "is_redrive", False) is not batch.is_redrive:
                self.aside.kept.world.fail("the handler is told wrongly whether this is a redrive")
            failing = self._try(batch)
            if failing and self._chance.random() < 0.5:
                raise HandlerFailed("bad")
            self._finish(batch, failing[0] if failing else len(batch.records))
            identifiers = [_identifier(event["Records"][place]["kinesis"]) for place in failing]
            self._chance.shuffle(identifiers)
            return {"batchItemFailures": [{"itemIdentifier": each} for each in identifiers]}

        named = FunctionIdentity("simulated", "arn:aws:lambda:eu-west-1:123456789012:function:simulated")
        handler = LambdaEventHandler(function, named, "", nullcontext(), lambda: "an-id")
        handler.handle(structs.replace(batch, stream_arn=STREAM_ARN))

    @property
    def _chance(self) -> Random:
        return self.aside.kept.world.chance

    def _try(self, batch: Batch) -> Sequence[int]:
        """The indexes of the records that it does not handle."""
        world, count = self.aside.kept.world, len(batch.records)
        if batch.is_redrive and world.has_faults and self._chance.random() < 0.02:
            world.scheduler.sleep(int(self._chance.uniform(0.1, 1.2) * (GIVEN_FOR // MICROSECOND)))
        if batch.is_redrive and self.aside.longer:
            world.scheduler.sleep(self.aside.longer)
        for _ in batch.records:
            world.scheduler.sleep(int(self._chance.uniform(0, 0.2) * SECOND))
        if not batch.is_redrive and world.strikes(Fault.HANDLER_EXITS):
            world.note(self.process.name, f"dies in a call with {count} of {batch.shard_id[-4:]}")
            world.scheduler.kill(self.process)
            world.scheduler.check_alive()
        if world.strikes(Fault.HANDLER_FAILS):
            return [self._chance.randrange(count)]
        return [place for place, record in enumerate(batch.records) if self.deployed.fails(record)]

    def _finish(self, batch: Batch, count: int) -> None:
        world = self.aside.kept.world
        for record in batch.records[:count]:
            if not batch.is_redrive:
                self.aside.keys.done(world, self.process, batch.shard_id, record)
            world.ledger.finish_kept(batch.shard_id, record)
            index = world.ledger.shards[batch.shard_id].index_of(record)
            self.aside.kept.handled.add((batch.shard_id, index))

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,  # noqa: ARG002 - the port's
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - the port's
    ) -> None:
        self.aside.keys.tenures.pop((self.process, shard_id), None)

    def lease_releasing(self, shard_id: str) -> None: ...

    def lease_lost(self, shard_id: str) -> None: ...

    def shard_ended(self, shard_id: str) -> None:
        world = self.aside.kept.world
        if not world.ledger.shards[shard_id].is_all_done:
            world.fail(f"shard_ended of {shard_id} with unhandled records")


def _identifier(kinesis: Mapping[str, Any]) -> str:
    sub = f":{kinesis['subSequenceNumber']}" if "subSequenceNumber" in kinesis else ""
    return f"{kinesis['sequenceNumber']}{sub}"


def set_aside(seed: int, *, kind: Kind | None = None, is_recorded: bool = False) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    chance = Random(f"aside {seed}")
    drawn = chance.choice(tuple(Kind))
    deployed = draw_deployed(chance)
    aside = AsideWorld(kind or drawn, chance, deployed)
    settings: dict[str, Any] = {
        "on_failure": str(aside.kind),
        "maximum_retry_attempts": deployed.settings["maximum_retry_attempts"],
        "maximum_record_age": chance.choice((None, None, timedelta(minutes=5))),
        "poll_limit": 1000,
        "poll_interval": timedelta(seconds=chance.choice((1, 6))),  # a page has records for several calls
        "idle_poll_interval": timedelta(seconds=10),
        "window": timedelta(seconds=160),  # each walks the shard's time page by page, from the checkpoint
    }
    return play(seed, is_recorded=is_recorded, wiring=aside.wiring(), without=BY_HAND, **settings)
