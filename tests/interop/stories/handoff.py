"""KCL 3.x' graceful handoff between Java and sublet, in both directions, asked for as its lease assignment manager asks.

Nothing may be repeated: who hands over checkpoints what it has done before it lets the other begin.
"""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass

from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import PATIENCE, Stage
from tests.mixed_fleet.verdict import LOST
from tests.mixed_fleet.workers import How, Worker


@dataclass(frozen=True)
class Handoff:
    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED, LOST)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            ours = stage.hire(self.java.employer.sublet("1"))
            stage.settle("sublet has every lease", [ours])
            theirs = stage.hire(self.java.kcl(Profile.KCL_3, "1"))
            wait_until(self._has_a_leader, PATIENCE, lambda: f"no Java worker leads: {theirs.log}")
            first, second, *_ = sorted(stage.watch.owners())
            for giver, taker, key in ((ours, theirs, first), (ours, theirs, second), (theirs, ours, first)):
                hand_over(stage, key, giver, taker)
        stage.drained()

    def _has_a_leader(self) -> bool:
        return "Leader" in self.stage.watch.rows


def hand_over(stage: Stage, key: str, giver: Worker, taker: Worker) -> None:
    """Asked as Java's initiateGracefulLeaseHandoff asks; over when the taker's counter moves on."""
    started = time.monotonic()
    stage.fleet.dynamodb.update_item(
        TableName=stage.fleet.outputs["LeaseTable"],
        Key={"leaseKey": {"S": key}},
        UpdateExpression="SET leaseOwner = :taker, checkpointOwner = :giver",
        ConditionExpression="leaseOwner = :giver AND attribute_not_exists(checkpointOwner)",
        ExpressionAttributeValues={":taker": {"S": taker.worker_id}, ":giver": {"S": giver.worker_id}},
    )
    seen: list[int] = []

    def taken_up() -> bool:
        lease = stage.watch.in_play()[key]
        if lease.lease_owner == taker.worker_id and lease.checkpoint_owner is None:
            seen.append(lease.lease_counter)
        return bool(seen) and seen[-1] > seen[0]

    wait_until(taken_up, PATIENCE, lambda: f"{key} is not taken up: {stage.watch.in_play()[key]}")
    stage.note(f"{key} from {giver.worker_id} to {taker.worker_id}", started)
