"""The demo, from an empty machine to the proof: set up, deploy, let events flow, wait for the last, prove."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import TypeDeserializer
from rich.console import Console
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.kinesis import KinesisStream
from sublet.settings import Settings

from demo.flights import Flight, airlines, events_per_key, figures, read_flights
from demo.producer import Producer, as_events
from demo.proof import Proof, prove
from demo.report import draw_report
from demo.reshards import MERGE_AFTER, SPLIT_AFTER, Operator, interrupted
from demo.screen import save_svg, shown
from demo.snapshot import Phase, Snapshot
from demo.story import Story
from demo.view import draw
from demo.watch import Watched, Watcher
from examples.flights.flights import ShardTotals
from infra.local import EmbeddedAws, embedded_aws
from infra.local.deploy import deploy

APPLICATION = "flights"
STREAM = "flights"
TABLE = "flights-by-shard"
SHARDS = 4

SETTINGS = {
    # Small, so that there is something to see: several workers, and windows that end while events flow.
    "leases_per_worker": "2",
    "worker_ids": "2",
    "window": "30s",
    "window_margin": "5s",
    # kinesis-local searches all of a shard's records in each poll, and is what limits the demo: poll it less often.
    "poll_interval": "1s",
    "linger": "10s",
}

LOOK = 0.2
PROMPT_AFTER = 2.0
"""Seconds. Without it, a shard that a worker has left, caught up, waits for the next tick: up to a minute."""

STUCK_AFTER = 90.0
"""Seconds without one more event handled, a tick's minute among them, after which waiting is given up."""

RELEASED_WITHIN = 20.0
"""Seconds for the workers to leave after the last event."""

PICTURE_AFTER = 0.62
"""The part of all events after which the view may be taken for --svg: both reshards are through then."""


class DemoFailed(Exception):
    """The demo could not get to its end."""


@dataclass(slots=True)
class Run:
    """One run's parts, as they come to be."""

    story: Story
    watcher: Watcher | None = None
    picture: Snapshot | None = None

    def latest(self) -> Snapshot:
        return self.watcher.latest if self.watcher else Snapshot()

    def keep_picture(self, total: int) -> None:
        """The liveliest look after the split and the merge: the most shards with an owner and events waiting."""
        snapshot = self.latest()
        is_in_time = snapshot.handled_in_all >= total * PICTURE_AFTER and snapshot.put_in_all < total
        if is_in_time and (self.picture is None or _liveliness(snapshot) > _liveliness(self.picture)):
            self.picture = self.story.complete(snapshot)


def _liveliness(snapshot: Snapshot) -> int:
    owned = [shard_id for shard_id, lease in snapshot.leases.items() if lease.owner]
    return len(owned) + sum(bool(snapshot.waiting(shard_id)) for shard_id in owned)


def run(events: int, svg: Path | None, console: Console) -> int:
    """0 if the proof holds, 1 if not. Raises DemoFailed, or what the embedded AWS raises, if it did not get that far."""
    story = Story()
    state = Run(story)
    with shown(console, story, state.latest):
        story.phase(Phase.READ)
        flights = list(read_flights(events))
        story.phase(Phase.START)
        with embedded_aws() as aws:
            proof = _on(aws, state, flights)
            story.phase(Phase.STOP)
    report = draw_report(proof, state.latest(), figures(flights), airlines())
    console.print()
    console.print(report)
    console.print(
        "\nWhere the time went: "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in story.durations())
    )
    if svg is not None:
        save_svg(svg, draw(state.picture or state.latest()), report)
        console.print(f"The picture is {svg}")
    return 0 if proof.holds else 1


def _on(aws: EmbeddedAws, state: Run, flights: list[Flight]) -> Proof:
    story, kinesis = state.story, aws.client("kinesis")
    story.phase(Phase.DEPLOY)
    stream_arn, table_arn = _create(aws)
    context = _context(stream_arn, table_arn)
    outputs = deploy(aws, context, report=story.detail)
    settings = Settings(application=APPLICATION, stream=STREAM, stream_arn=stream_arn)
    stream = KinesisStream(kinesis, aws.client("kinesis"), settings)
    operator = Operator(kinesis, STREAM, stream.list_shards, story)
    actions = {
        int(len(flights) * SPLIT_AFTER): operator.split,
        int(len(flights) * MERGE_AFTER): operator.merge,
    }
    source = interrupted(as_events(flights), actions)
    producer = Producer(kinesis, STREAM, stream.list_shards, source)
    watched = Watched(
        aws,
        DynamoDbLeaseTable(aws.client("dynamodb"), settings.lease_table),
        stream,
        TABLE,
        outputs["LeaseManager"],
        outputs["StateMachineArn"],
    )
    state.watcher = Watcher(watched, producer.lanes, story, len(flights))
    story.phase(Phase.FLOW)
    with _going_on(producer, state.watcher):
        _until_handled(aws.client("lambda"), outputs["LeaseManager"], state, producer, len(flights))
        story.phase(Phase.LEAVE)
        _until_released(state.watcher)
    story.phase(Phase.PROVE)
    return prove(_rows(aws), stream.list_shards(), events_per_key(flights), figures(flights))


def _create(aws: EmbeddedAws) -> tuple[str, str]:
    """The stream and the handler's table; their ARNs."""
    kinesis, dynamodb = aws.client("kinesis"), aws.client("dynamodb")
    kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
    table = dynamodb.create_table(
        TableName=TABLE,
        AttributeDefinitions=[{"AttributeName": "shard_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "shard_id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    while (stream := kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"])[
        "StreamStatus"
    ] != "ACTIVE":
        time.sleep(LOOK)
    return stream["StreamARN"], table["TableDescription"]["TableArn"]


def _context(stream_arn: str, table_arn: str) -> dict[str, str]:
    return {
        "application": APPLICATION,
        "stream_arn": stream_arn,
        "handler_code": "examples/flights",
        "handler": "flights:handle",
        "handler_environment": json.dumps({"FLIGHTS_TABLE": TABLE}),
        "handler_table_arn": table_arn,
        **SETTINGS,
    }


@contextmanager
def _going_on(producer: Producer, watcher: Watcher) -> Iterator[None]:
    producer.start()
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()
        producer.stop()


def _until_handled(lambda_: Any, manager: str, state: Run, producer: Producer, total: int) -> None:
    """Wait for the last event, and prompt the lease manager when events wait in a shard that nobody has."""
    story, prompted_at, moved_at, handled = state.story, float("-inf"), time.monotonic(), 0
    while True:
        time.sleep(LOOK)
        if producer.failure is not None:
            raise DemoFailed(f"the producer gave up: {producer.failure}") from producer.failure
        if producer.is_done and story.current_phase is Phase.FLOW:
            story.phase(Phase.LAST)
        snapshot, now = state.latest(), time.monotonic()
        state.keep_picture(total)
        if snapshot.handled_in_all >= total and producer.is_done:
            return
        if snapshot.handled_in_all > handled:
            handled, moved_at = snapshot.handled_in_all, now
        if now - moved_at > STUCK_AFTER:
            story.tell(f"no event handled for {STUCK_AFTER:.0f} s: giving up")
            return
        if now - prompted_at > PROMPT_AFTER and snapshot.unattended():
            _prompt(lambda_, manager)
            prompted_at = now


def _prompt(lambda_: Any, manager: str) -> None:
    prompt = {"prompt": {"because": "events are waiting in a shard that nobody has"}}
    lambda_.invoke(FunctionName=manager, InvocationType="Event", Payload=json.dumps(prompt))


def _until_released(watcher: Watcher) -> None:
    deadline = time.monotonic() + RELEASED_WITHIN
    while time.monotonic() < deadline:
        time.sleep(LOOK)
        if not watcher.latest.executions_running and not any(
            lease.owner for lease in watcher.latest.leases.values()
        ):
            return


def _rows(aws: EmbeddedAws) -> list[ShardTotals]:
    """The handler's rows. boto3's Table turns them into the types that the handler wrote."""
    client = aws.client("dynamodb")
    deserialize = TypeDeserializer().deserialize
    pages = client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
    rows = [
        {name: deserialize(value) for name, value in item.items()} for page in pages for item in page["Items"]
    ]
    return [ShardTotals.from_row(row) for row in rows]
