"""Watching the deployed consumer from outside, by what it leaves in AWS: lease rows, the handler's rows, executions."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from sublet.ports import LeaseTable, Stream

from demo.lanes import Lanes
from demo.snapshot import LeaseView, Snapshot
from demo.story import Story
from demo.view import short
from infra.local import EmbeddedAws

INTERVAL = 0.5
"""Seconds between looks; ministack has one thread for everything, and a look is some ten calls."""

RATE_OVER = 5.0
"""Seconds that a rate is taken over."""


class Executions(NamedTuple):
    """The state machine's executions, and the lease workers that are at work in them."""

    started: int
    running: int
    workers: int


def look_at_executions(stepfunctions: Any, state_machine_arn: str) -> Executions:
    pages = stepfunctions.get_paginator("list_executions").paginate(stateMachineArn=state_machine_arn)
    executions = [execution for page in pages for execution in page["executions"]]
    running = [execution["executionArn"] for execution in executions if execution["status"] == "RUNNING"]
    return Executions(
        len(executions), len(running), sum(_tasks_under_way(stepfunctions, arn) for arn in running)
    )


def _tasks_under_way(stepfunctions: Any, execution_arn: str) -> int:
    pages = stepfunctions.get_paginator("get_execution_history").paginate(executionArn=execution_arn)
    types = Counter(event["type"] for page in pages for event in page["events"])
    return types["TaskScheduled"] - types["TaskSucceeded"] - types["TaskFailed"]


@dataclass(frozen=True, slots=True)
class Watched:
    """Where to look."""

    aws: EmbeddedAws
    leases: LeaseTable
    stream: Stream
    flights_table: str
    manager: str
    worker: str
    state_machine_arn: str


class Watcher:
    """Looks in a thread of its own, and tells the story what has changed. `latest` is what it saw last."""

    def __init__(self, watched: Watched, lanes: Lanes, story: Story, total: int) -> None:
        self.latest = Snapshot(total=total)
        self._watched, self._lanes, self._story, self._total = watched, lanes, story, total
        self._dynamodb, self._cloudwatch = watched.aws.client("dynamodb"), watched.aws.client("cloudwatch")
        self._stepfunctions = watched.aws.client("stepfunctions")
        self._before = self._invocations(watched.worker)  # the deployment's smoke test
        self._history: deque[tuple[float, Mapping[str, int]]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                before, self.latest = self.latest, self.look()
            except Exception as failure:  # noqa: BLE001 -- the view must not end what it watches; the next look may succeed
                self._story.tell(f"could not look: {type(failure).__name__}: {failure}")
                continue
            for line in changes(before.leases, self.latest.leases):
                self._story.tell(line)

    def look(self) -> Snapshot:
        """A fresh snapshot. Events put are read last: they are never fewer than those handled."""
        shards = self._watched.stream.list_shards()
        handled, redelivered = self._handled()
        executions = look_at_executions(self._stepfunctions, self._watched.state_machine_arn)
        windows = self._invocations(self._watched.worker) - self._before
        return Snapshot(
            shards=tuple(shards),
            leases=self._leases(),
            handled=handled,
            redelivered=redelivered,
            rates=self._rates(handled),
            ticks=self._invocations(self._watched.manager),
            executions=executions.started,
            executions_running=executions.running,
            windows=windows + executions.workers,
            windows_running=executions.workers,
            put=dict(self._lanes.put),
            aggregated=self._lanes.aggregated,
            plain=self._lanes.plain,
            sent_again=self._lanes.sent_again,
            total=self._total,
        )

    def _leases(self) -> dict[str, LeaseView]:
        return {
            lease.shard_id: LeaseView(lease.lease_owner, str(lease.checkpoint), lease.is_ended)
            for lease in self._watched.leases.scan().leases
        }

    def _handled(self) -> tuple[dict[str, int], int]:
        rows = self._dynamodb.scan(
            TableName=self._watched.flights_table, ProjectionExpression="shard_id, events, redelivered"
        )["Items"]
        return {row["shard_id"]["S"]: int(row["events"]["N"]) for row in rows}, sum(
            int(row["redelivered"]["N"]) for row in rows
        )

    def _rates(self, handled: Mapping[str, int]) -> dict[str, float]:
        now = time.monotonic()
        self._history.append((now, handled))
        while now - self._history[0][0] > RATE_OVER and len(self._history) > 2:
            self._history.popleft()
        then, before = self._history[0]
        return (
            {s: (count - before.get(s, 0)) / (now - then) for s, count in handled.items()}
            if now > then
            else {}
        )

    def _invocations(self, function: str) -> int:
        """Lambda's own metric: how often the function has run. Under way does not count."""
        now = self._story.now()
        points = self._cloudwatch.get_metric_statistics(
            Namespace="AWS/Lambda",
            MetricName="Invocations",
            Dimensions=[{"Name": "FunctionName", "Value": function}],
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=60,
            Statistics=["Sum"],
        )["Datapoints"]
        return int(sum(point["Sum"] for point in points))


def changes(before: Mapping[str, LeaseView], after: Mapping[str, LeaseView]) -> list[str]:
    """What happened to the leases from one look to the next, in words, a line for each worker and kind."""
    taken: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}
    ended = []
    for shard_id, lease in sorted(after.items()):
        was = before.get(shard_id, LeaseView(None, "", is_ended=False))
        if lease.is_ended and not was.is_ended:
            ended.append(shard_id)
        elif lease.owner and lease.owner != was.owner:
            taken.setdefault(lease.owner, []).append(shard_id)
        elif was.owner and not lease.owner:
            left.setdefault(was.owner, []).append(shard_id)
    return [
        *(f"shard {_numbers([shard_id])} has ended: its children may begin" for shard_id in ended),
        *(f"{owner} released {_numbers(shard_ids)}" for owner, shard_ids in left.items()),
        *(f"{owner} acquired {_numbers(shard_ids)}" for owner, shard_ids in taken.items()),
    ]


def unattended(snapshot: Snapshot) -> list[str]:
    """Shards with events waiting that a tick could have worked on at once: nobody's, and their parents have ended."""
    found = []
    for shard in snapshot.shards:
        lease = snapshot.leases.get(shard.shard_id)
        parents = [snapshot.leases.get(parent) for parent in shard.parent_shard_ids]
        is_free = lease is None or (lease.owner is None and not lease.is_ended)
        if (
            is_free
            and snapshot.waiting(shard.shard_id)
            and all(parent and parent.is_ended for parent in parents)
        ):
            found.append(shard.shard_id)
    return found


def _numbers(shard_ids: list[str]) -> str:
    return ", ".join(map(short, shard_ids))
