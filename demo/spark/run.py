"""The demo with Spark, from an empty machine to the proof: the stream goes to Spark and back while events flow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from sublet.protocol.shard import Shard

from demo.consumer import APPLICATION, LOOK, SETTINGS, STREAM, Consumer, deploy_consumer
from demo.flights import Flight, airlines, events_per_key, figures, read_flights
from demo.producer import FlightProducer, as_events
from demo.prompts import Prompter
from demo.reshards import Operator, interrupted
from demo.run import DemoFailed, going_on, liveliness, until_released
from demo.screen import save_svg, shown
from demo.snapshot import Part, Phase, Snapshot
from demo.spark.gate import BY_LAMBDA, BY_SPARK, MERGE_AT, SPLIT_AT, Gates
from demo.spark.pipeline import Pipeline
from demo.spark.proof import Proof, prove
from demo.spark.reader import LakeReader
from demo.spark.report import draw_report
from demo.spark.switch import FleetSwitch
from demo.story import Story
from demo.view import draw
from demo.watch import Watcher
from examples.flights.flights import ShardTotals
from infra.local import EmbeddedAws, embedded_aws

PLAN = (
    Phase.READ,
    Phase.START,
    Phase.DEPLOY,
    Phase.BY_LAMBDA,
    Phase.TO_SPARK,
    Phase.BY_SPARK,
    Phase.TO_LAMBDA,
    Phase.PROVE,
)

CHILDREN = 3
"""Two from the split, one from the merge."""

WORKER = f"{APPLICATION}-spark"
"""Spark's worker id, by the library's rule."""

WINDOWS = {**SETTINGS, "window": "20s"}
"""The longest wait until the fleet has given its leases back."""

STUCK_AFTER = 180.0
"""Seconds without another event handled after which the demo gives up: Spark's first batch may take a minute or two
on a slow machine."""

ENOUGH = 0.2
"""The fraction of all events that the fleet has handled when the stream is taken from it."""


@dataclass(slots=True)
class SparkRun:
    """One run's parts, created one after the other."""

    story: Story
    pipeline: Pipeline
    watcher: Watcher | None = None
    first: list[ShardTotals] = field(default_factory=list)
    """The handler's rows when Spark had taken over."""
    has_taken_over: bool = False
    picture: Snapshot | None = None

    def latest(self) -> Snapshot:
        """The last snapshot, with the events handled by each runtime."""
        snapshot = self.watcher.latest if self.watcher else Snapshot()
        by_spark = sum(snapshot.by_spark.values())
        by_lambda = snapshot.handled_in_all - by_spark
        first = sum(row.events for row in self.first) if self.has_taken_over else by_lambda
        parts = (Part("Lambda", first), Part("Spark", by_spark), Part("Lambda", by_lambda - first))
        begun = tuple(part for part in parts if part.events > 0)
        return replace(snapshot, parts=begun, spark=self.pipeline.said)


def run(events: int, keep: Path | None, svg: Path | None, console: Console) -> int:
    """Returns 0 if the proof holds, 1 if not. Raises DemoFailed, PipelineFailed, or the embedded AWS' error, if it
    did not get that far."""
    story = Story(PLAN)
    with ExitStack() as until_reported:
        state = SparkRun(story, Pipeline(keep))
        with shown(console, story, state.latest):
            story.phase(Phase.READ)
            flights = list(read_flights(events))
            story.phase(Phase.START)
            aws = until_reported.enter_context(embedded_aws())
            until_reported.enter_context(closing(state.pipeline))
            proof = _on(aws, state, flights)
        report = draw_report(proof, state.latest(), figures(flights), airlines(), keep)
        console.print("", report)
        story.phase(Phase.STOP)
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in story.durations())
    console.print(f"\nNothing is left running. Where the time went: {times}")
    if svg is not None:
        save_svg(svg, draw(state.picture or state.latest()), report, title="make demo-spark")
        console.print(f"The picture is {svg}")
    return 0 if proof.holds else 1


def _on(aws: EmbeddedAws, state: SparkRun, flights: list[Flight]) -> Proof:
    story, kinesis, gates = state.story, aws.client("kinesis"), Gates()
    story.phase(Phase.DEPLOY)
    consumer = deploy_consumer(aws, story.detail, WINDOWS)
    list_shards = consumer.stream.list_shards
    operator = Operator(kinesis, STREAM, list_shards, story)
    actions: dict[float, Callable[[], object]] = {
        BY_LAMBDA: gates.spark_has_it.wait,
        SPLIT_AT: operator.split,
        MERGE_AT: operator.merge,
        BY_SPARK: gates.wait_until_done,
    }
    source = interrupted(as_events(flights), {int(len(flights) * at): act for at, act in actions.items()})
    producer = FlightProducer(aws.account(), STREAM, source)
    with closing(LakeReader(state.pipeline.lake)) as lake:
        state.watcher = Watcher(consumer, producer, story, len(flights), lake.rows)
        with going_on(producer, state.watcher), gates.opened_at_last():
            Hands(consumer, state, producer, gates, len(flights)).pass_on()
        story.phase(Phase.PROVE)
        return prove(state.first, consumer.stored(), lake.flights(), events_per_key(flights), figures(flights))


class Hands:
    """Moves the stream from one runtime to the other."""

    def __init__(self, consumer: Consumer, state: SparkRun, producer: FlightProducer, gates: Gates, total: int) -> None:
        self._consumer, self._state, self._producer, self._gates = consumer, state, producer, gates
        self._story, self._total = state.story, total
        self._prompter = Prompter(consumer.aws.client("lambda"), consumer.manager)
        self._fleet = FleetSwitch(consumer)

    def pass_on(self) -> None:
        story = self._story
        story.phase(Phase.BY_LAMBDA)
        self._until(lambda seen: seen.handled_in_all >= self._total * ENOUGH, prompting=True)
        story.phase(Phase.TO_SPARK)
        self._to_spark()
        story.phase(Phase.BY_SPARK)
        self._gates.spark_has_it.set()
        self._until(self._has_passed_both_reshards)
        story.phase(Phase.TO_LAMBDA)
        self._to_lambda()
        self._until(lambda seen: self._producer.is_done and seen.handled_in_all >= self._total, prompting=True)
        until_released(self._watcher)

    @property
    def _watcher(self) -> Watcher:
        assert self._state.watcher is not None
        return self._state.watcher

    def _to_spark(self) -> None:
        """The fleet is stopped first: it gives its leases back as its windows end, and Spark takes them one by one."""
        self._fleet.off()
        self._story.tell("the schedule's rule is disabled and the lease manager may not run: no new windows")
        self._state.pipeline.start(self._consumer.aws)
        self._story.tell("sublet pipeline --leases hold starts, and takes what is free")
        self._until(lambda seen: not seen.executions_running and _all_are_sparks(seen))
        self._state.first = self._consumer.stored()
        self._state.has_taken_over = True
        self._story.tell(f"{WORKER} has every lease")

    def _to_lambda(self) -> None:
        self._story.tell("the pipeline is asked to end (SIGTERM): it finishes its batch")
        self._state.pipeline.finish()
        held = [lease for lease in self._consumer.leases.scan().leases if lease.lease_owner == WORKER]
        self._story.tell(f"it has ended, and holds {len(held)} leases; the rule is enabled again")
        self._fleet.on()
        self._gates.spark_is_done.set()

    def _has_passed_both_reshards(self, seen: Snapshot) -> bool:
        """True once Spark has ended the parents, and has some of each child's events; in a short run there may be
        none."""
        parents = {parent for shard in seen.shards for parent in shard.parent_shard_ids}
        children = [child.shard_id for child in _children(seen)]
        return (
            self._gates.all_is_sparks.is_set()
            and len(children) == CHILDREN
            and all(seen.has_ended(shard) for shard in seen.shards if shard.shard_id in parents)
            and all(seen.by_spark.get(child) or not seen.put.get(child) for child in children)
            and any(seen.by_spark.get(child) for child in children)
        )

    def _until(self, is_there: Callable[[Snapshot], bool], prompting: bool = False) -> None:
        """Raises DemoFailed if nothing has moved for STUCK_AFTER, and PipelineFailed."""
        moved_at, handled = time.monotonic(), -1
        while not is_there(seen := self._watcher.latest):
            time.sleep(LOOK)
            if self._producer.failure is not None:
                raise DemoFailed(f"the producer gave up: {self._producer.failure}")
            self._state.pipeline.check()
            self._keep_picture()
            now = time.monotonic()
            if seen.handled_in_all > handled:
                handled, moved_at = seen.handled_in_all, now
            if now - moved_at > STUCK_AFTER:
                raise DemoFailed(f"no event handled for {STUCK_AFTER:.0f} s: {self._story.current_phase}")
            if prompting:
                self._prompter.look(seen, now)

    def _keep_picture(self) -> None:
        """Keeps the liveliest snapshot of Spark's turn once it has all children's leases; the last one of several."""
        seen, best = self._state.latest(), self._state.picture
        owners = [seen.leases[child.shard_id].owner for child in _children(seen) if child.shard_id in seen.leases]
        if self._story.current_phase is not Phase.BY_SPARK or owners != [WORKER] * CHILDREN:
            return
        if best is None or liveliness(seen) >= liveliness(best):
            self._state.picture = self._story.complete(seen)


def _children(seen: Snapshot) -> list[Shard]:
    return [shard for shard in seen.shards if shard.parent_shard_ids]


def _all_are_sparks(seen: Snapshot) -> bool:
    unfinished = [lease for lease in seen.leases.values() if not lease.is_ended]
    return bool(unfinished) and all(lease.owner == WORKER for lease in unfinished)
