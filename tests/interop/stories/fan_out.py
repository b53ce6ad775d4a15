"""Java's KCL reads by SubscribeToShard, alone and beside sublet: through splits and merges, with workers that take
leases from live ones, and from killed ones.

All workers subscribe as one registered consumer. So a lease's new owner may subscribe while the old owner's
subscription goes on, or just after it has ended.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from infra.local import fan_out as embedded
from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import PATIENCE, Stage
from tests.mixed_fleet.workers import How, Worker


@dataclass(frozen=True)
class FanOut:
    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            first = self._kcl("1")
            stage.settle("one worker, by fan-out", [first])
            stage.fleet.split()
            stage.settle("a split", [first])
            second = self._kcl("2")
            stage.settle("a second worker takes its share", [first, second], each=True)
            first.kill()
            stage.settle("the first is killed", [second])
            stage.fleet.merge(1)
            stage.settle("a merge", [second])
        stage.drained()

    def _kcl(self, name: str) -> Worker:
        return self.stage.at_work(self.java.kcl(self.profile, name, fansOut="true"))


@dataclass(frozen=True)
class FanOutTogether:
    """Both sides must get a share each time, and both subscribe."""

    stage: Stage
    java: Java
    profile: Profile
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            java = stage.at_work(self.java.kcl(self.profile, "1", fansOut="true"))
            ours = stage.hire(self._sublet("1"))
            stage.settle("both subscribe", stage.alive(), each=True)
            stage.fleet.split()
            stage.settle("a split", stage.alive(), each=True)
            java.kill()
            stage.settle("Java is killed", [ours])
            self._subscribes_alone()
            java = stage.hire(self.java.kcl(self.profile, "2", fansOut="true"))
            stage.settle("Java takes its share from sublet", stage.alive(), each=True)
            ours.stop()
            stage.settle("sublet is stopped", [java])
            stage.fleet.merge(1)
            stage.hire(self._sublet("2"))
            stage.settle("a merge, and sublet takes its share from Java", stage.alive(), each=True)
        stage.drained()

    def _subscribes_alone(self) -> None:
        """Check that sublet subscribes, and does not only poll, while no other worker lives."""
        fan_out = embedded.FanOut(self.java.employer.aws, self._consumer())
        before = len(fan_out.calls())
        self.stage.fleet.split()

        def has_subscribed() -> bool:
            return any(call.answer == "subscribed" for call in fan_out.calls()[before:])

        wait_until(has_subscribed, PATIENCE, lambda: f"sublet only polls: {fan_out.calls()[before:]}")

    def _sublet(self, name: str) -> Worker:
        return self.java.employer.sublet(name, reading="fan_out", fan_out_consumer=self._consumer())

    def _consumer(self) -> str:
        """The one that Java has registered."""
        kinesis, name = self.stage.fleet.kinesis, self.stage.fleet.stream
        stream = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
        (consumer,) = kinesis.list_stream_consumers(StreamARN=stream)["Consumers"]
        arn: str = consumer["ConsumerARN"]
        return arn
