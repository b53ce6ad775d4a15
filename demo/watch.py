"""Watches the deployed consumer from outside, by what it leaves in AWS: lease rows, the handler's rows, executions."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from demo.consumer import TABLE, Consumer
from demo.producer import PATIENCE, FlightProducer
from demo.snapshot import Snapshot
from demo.story import Story
from demo.view import short

CountByShard = Callable[[], Mapping[str, int]]

INTERVAL = 0.5
"""Seconds between snapshots; ministack has a single thread, and a snapshot takes about ten calls."""

RATE_OVER = 5.0
"""Seconds over which a rate is measured."""


class Windows(NamedTuple):
    """Windows of one or several executions."""

    ended: int = 0
    running: int = 0
    dropped: int = 0
    """User records that the hash range rule dropped in them."""


@dataclass(slots=True)
class Executions:
    """The state machine's executions and their windows, from their histories."""

    stepfunctions: Any
    state_machine_arn: str
    over: dict[str, Windows] = field(default_factory=dict)
    """The windows of executions that have ended, by ARN; these are read only once."""

    def look(self) -> tuple[int, int, Windows]:
        """The number of executions, how many are running, and all their windows."""
        pages = self.stepfunctions.get_paginator("list_executions").paginate(stateMachineArn=self.state_machine_arn)
        running, windows = 0, []
        executions = [execution for page in pages for execution in page["executions"]]
        for execution in executions:
            arn, is_running = execution["executionArn"], execution["status"] == "RUNNING"
            found = self.over.get(arn) or self._windows(arn)
            if is_running:
                running += 1
            else:
                self.over[arn] = found
            windows.append(found)
        return (
            len(executions),
            running,
            Windows(*map(sum, zip(*windows, strict=True))) if windows else Windows(),
        )

    def _windows(self, arn: str) -> Windows:
        pages = self.stepfunctions.get_paginator("get_execution_history").paginate(executionArn=arn)
        events = [event for page in pages for event in page["events"]]
        types = Counter(event["type"] for event in events)
        under_way = types["TaskScheduled"] - types["TaskSucceeded"] - types["TaskFailed"]
        outputs = (event.get("taskSucceededEventDetails", {}).get("output", "{}") for event in events)
        payloads = [json.loads(output).get("Payload") for output in outputs]
        reports = [payload for payload in payloads if isinstance(payload, dict) and "leases" in payload]
        dropped = sum(lease["dropped_out_of_range"] for report in reports for lease in report["leases"])
        return Windows(len(reports) + types["TaskFailed"], under_way, dropped)


class Watcher:
    """Takes snapshots in a thread of its own, and reports changes to the story. `latest` is the last one.

    by_spark   events by shard that another runtime than the deployed one has handled
    """

    def __init__(
        self,
        consumer: Consumer,
        producer: FlightProducer,
        story: Story,
        total: int,
        by_spark: CountByShard = dict,
    ) -> None:
        self.latest = Snapshot(total=total)
        self._consumer, self._producer, self._story, self._total = consumer, producer, story, total
        self._by_spark, aws = by_spark, consumer.aws
        self._dynamodb, self._cloudwatch = aws.client("dynamodb"), aws.client("cloudwatch")
        self._executions = Executions(aws.client("stepfunctions"), consumer.state_machine_arn)
        self._history: deque[tuple[float, Mapping[str, int]]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                before, self.latest = self.latest, self.look()
            except Exception as failure:  # noqa: BLE001 -- watching must not stop the demo; the next snapshot may succeed
                if self._stop.is_set():
                    return
                self._story.tell(f"could not look: {type(failure).__name__}: {failure}")
                continue
            for line in changes(before, self.latest):
                self._story.tell(line)

    def look(self) -> Snapshot:
        """A fresh snapshot. Events put are read last, so that they are never fewer than those handled."""
        shards = self._consumer.stream.list_shards()
        by_lambda, redelivered = self._by_lambda()
        by_spark = self._by_spark()
        handled = Counter(by_lambda) + Counter(by_spark)
        executions, running, windows = self._executions.look()
        put = self._producer.put
        return Snapshot(
            shards=tuple(shards),
            fleet=self._consumer.watch.look(None),
            handled=handled,
            by_spark=by_spark,
            redelivered=redelivered,
            rates=self._rates(handled),
            ticks=self._ticks(),
            executions=executions,
            executions_running=running,
            windows=windows.ended + windows.running,
            windows_running=windows.running,
            dropped=windows.dropped,
            put=dict(put.by_shard),
            aggregated=put.aggregated,
            plain=put.plain,
            sent_again=put.sent_again,
            total=self._total,
        )

    def _by_lambda(self) -> tuple[dict[str, int], int]:
        rows = self._dynamodb.scan(TableName=TABLE, ProjectionExpression="shard_id, events, redelivered")["Items"]
        return {row["shard_id"]["S"]: int(row["events"]["N"]) for row in rows}, sum(
            int(row["redelivered"]["N"]) for row in rows
        )

    def _rates(self, handled: Mapping[str, int]) -> dict[str, float]:
        now = time.monotonic()
        self._history.append((now, handled))
        while now - self._history[0][0] > RATE_OVER and len(self._history) > 2:
            self._history.popleft()
        then, before = self._history[0]
        return {s: (count - before.get(s, 0)) / (now - then) for s, count in handled.items()} if now > then else {}

    def _ticks(self) -> int:
        """Lambda's own metric of the lease manager's invocations."""
        now = self._story.now()
        points = self._cloudwatch.get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName="Invocations",
            Dimensions=[{"Name": "FunctionName", "Value": self._consumer.manager}],
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=60,
            Statistics=["Sum"],
        )["Datapoints"]
        return int(sum(point["Sum"] for point in points))


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Returns what to report about two snapshots: shards that have ended, and each new shard's first owner."""
    ended = [s.shard_id for s in after.shards if after.has_ended(s) and not before.has_ended(s)]
    first: dict[str, list[str]] = {}
    for shard_id, lease in sorted(after.leases.items()):
        if (
            lease.owner
            and lease.owner != getattr(before.leases.get(shard_id), "owner", None)
            and not after.handled.get(shard_id)
        ):
            first.setdefault(lease.owner, []).append(shard_id)
    return [
        *(f"{_numbers(ended)} handled to the end: the children may begin" for _ in ended[:1]),
        *(f"{owner} begins with {_numbers(shard_ids)}" for owner, shard_ids in first.items()),
    ]


def _numbers(shard_ids: list[str]) -> str:
    """`shard 4`, `shards 4 and 5`."""
    numbers = [*map(short, shard_ids)]
    return f"shard {numbers[0]}" if len(numbers) == 1 else f"shards {', '.join(numbers[:-1])} and {numbers[-1]}"
