"""A deployment of several streams on Lambda in simulated time, with a tick each minute, and its metrics by stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from sublet.aws.metrics import OF_STREAMS
from sublet.decisions.manager.packing import WorkerItem
from sublet.engine.worker.worker import LeaseWorker
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.stream_key import stream_key_of
from sublet.testing.turn_taking import TurnTaking
from sublet_cdk.alarm_kinds import EACH_STREAM, Alarm, Source
from sublet_cdk.alarm_pace import AlarmThresholds, Pace
from sublet_cdk.stream_alarms import stream_alarms

from tests.alarms.cloudwatch import Recorded, contributors, is_on
from tests.alarms.fleet import TURNS_MAX
from tests.doubles.several_streams import SeveralWorld

MINUTE = timedelta(minutes=1)
DEFAULTS = AlarmThresholds()


@dataclass(slots=True)
class StreamMetrics:
    """The Metrics port: what EmfMetrics puts by stream, and nothing else."""

    recorded: Recorded
    minute: Callable[[], int]

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:  # noqa: ARG002 - by stream alone
        stream = None if shard_id is None else stream_key_of(shard_id)
        if stream is not None and metric in OF_STREAMS:
            self.recorded.put(Source.APPLICATION, metric, self.minute(), value, stream.stream)

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """No alarm is on one."""

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        """No alarm is on one."""

    def flush(self, *, is_last: bool = False) -> None:
        """Nothing to do: `put` writes at once."""


class StreamsFleet:
    """Make one, break something at some minute, run it, and look at CloudWatch."""

    def __init__(self, streams: Mapping[str, int], **settings: Any) -> None:
        """`streams`: shards by name."""
        self.world = SeveralWorld(",".join(streams), **settings)
        for name, shards in streams.items():
            self.world.create(name, shards)
        self.world.tasks = TurnTaking(self.world.clock, TURNS_MAX)
        self.recorded = Recorded()
        self.world.metrics = StreamMetrics(self.recorded, self.minute)  # type: ignore[assignment]  # the port
        self.world.handler.script = self._handle
        self.handles: Callable[[Batch], None] = lambda _: None
        self._began = self.world.clock.steady()

    def minute(self) -> int:
        return int((self.world.clock.steady() - self._began) // MINUTE)

    def run(self, minutes: int, each_minute: Callable[[int], None]) -> None:
        for _ in range(minutes):
            each_minute(self.minute())
            self.world.tasks.spawn(self._tick)
            self.world.tasks.sleep(MINUTE)
            self.world.handler.finished.clear()
            self.world.handler.batches.clear()
            self.world.calls.clear()

    def produce(self, *names: str) -> None:
        """A record for each open shard of these streams."""
        for name in names:
            real = self.world.streams[name].real
            for shard in real.list_shards():
                if shard.is_open:
                    text = f"{name}-{self.minute()}"
                    real.put(text, text.encode(), shard.hash_key_range.starting)

    def named(self, at: AlarmThresholds = DEFAULTS) -> Sequence[str]:
        """The alarms that are on, one for each stream and kind."""
        defined = stream_alarms(Pace(), at, "audit", [*self.world.streams])
        return sorted(alarm.name for alarm in defined if is_on(alarm, self.recorded, self.minute()))

    def found(self, at: AlarmThresholds = DEFAULTS) -> Sequence[str]:
        """The alarms on a query that are on, each with its contributors."""
        defined = stream_alarms(Pace(), at, "audit", [EACH_STREAM])
        return sorted(f"{alarm.name}-{stream}" for alarm in defined for stream in self._contributors(alarm))

    def _contributors(self, alarm: Alarm) -> frozenset[str]:
        return contributors(alarm, self.recorded, self.minute())

    def _tick(self) -> None:
        self.world.manager().tick()
        for number, item in enumerate(self.world.dispatcher.take()):
            self.world.tasks.spawn(partial(self._window, item, f"{self.minute()}-{number}"))

    def _window(self, item: WorkerItem, name: str) -> None:
        settings = self.world.settings
        worker = LeaseWorker(self.world.ports(), self.world.handler, settings)
        worker.run_window(item, f"window-{name}", self.world.clock.steady() + settings.window)

    def _handle(self, batch: Batch) -> None:
        self.handles(batch)
