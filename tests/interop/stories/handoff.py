"""KCL 3.x' graceful handoff between Java and sublet, in both directions, requested as its lease assignment manager
does.

Nothing may be repeated: the old owner checkpoints its finished records before it lets the new one begin. If either
side dies in the middle, nothing is lost and no worker waits for the dead one.
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
from tests.mixed_fleet.workers import How, Side, Worker


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
            for giver, taker in ((ours, theirs), (ours, theirs), (theirs, ours)):
                hand_over(stage, giver, taker)
        stage.drained()


@dataclass(frozen=True)
class HandoffDeaths:
    """Java dies as the giver and as the taker, then sublet does."""

    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            ours = stage.hire(self.java.employer.sublet("1"))
            stage.settle("sublet has every lease", [ours])
            for name, java_gives in (("1", True), ("2", False)):
                theirs = stage.hire(self.java.kcl(Profile.KCL_3, name))
                hand_over(stage, ours, theirs)
                self._dies(theirs, *((theirs, ours) if java_gives else (ours, theirs)))
            theirs = stage.hire(self.java.kcl(Profile.KCL_3, "3"))
            hand_over(stage, ours, theirs)
            self._dies(ours, ours, theirs)
            ours = stage.hire(self.java.employer.sublet("2"))
            hand_over(stage, theirs, ours)
            self._dies(ours, theirs, ours)
        stage.drained()

    def _dies(self, victim: Worker, giver: Worker, taker: Worker) -> None:
        asked = ask_for_handoff(self.stage, giver, taker)
        victim.kill()
        self.stage.settle(
            f"{victim.worker_id} killed as {asked} goes from {giver.worker_id} to {taker.worker_id}",
            self.stage.alive(),
        )


def hand_over(stage: Stage, giver: Worker, taker: Worker) -> None:
    """Done when the taker's counter moves on; requested again if the taker was so slow that another took it for
    dead.
    """
    started = time.monotonic()
    if taker.side is Side.KCL_3:
        stage.reports(taker)
    key = ask_for_handoff(stage, giver, taker)
    seen: list[int] = []

    def taken_up() -> bool:
        nonlocal key
        lease = stage.watch.in_play().get(key)
        if lease is not None and lease.checkpoint_owner is None:
            if lease.lease_owner == taker.worker_id:
                seen.append(lease.lease_counter)
            elif seen:
                seen.clear()
                key = ask_for_handoff(stage, giver, taker)
        return bool(seen) and seen[-1] > seen[0]

    wait_until(taken_up, PATIENCE, lambda: f"{key} is not taken up: {stage.watch.in_play().get(key)}")
    stage.note(f"{key} from {giver.worker_id} to {taker.worker_id}", started)


def ask_for_handoff(stage: Stage, giver: Worker, taker: Worker) -> str:
    """As written by Java's initiateGracefulLeaseHandoff, for the first lease that the giver has and keeps. Returns
    its key."""
    asked: list[str] = []

    def is_asked() -> bool:
        owned = (key for key, owner in stage.watch.owners().items() if owner == giver.worker_id)
        asked.extend(key for key in sorted(owned)[:1] if _ask(stage, key, giver, taker))
        return bool(asked)

    wait_until(is_asked, PATIENCE, lambda: f"{giver.worker_id} has nothing to give: {stage.watch.owners()}")
    return asked[0]


def _ask(stage: Stage, key: str, giver: Worker, taker: Worker) -> bool:
    dynamodb = stage.fleet.dynamodb
    try:
        dynamodb.update_item(
            TableName=stage.fleet.outputs["LeaseTable"],
            Key={"leaseKey": {"S": key}},
            UpdateExpression="SET leaseOwner = :taker, checkpointOwner = :giver",
            ConditionExpression="leaseOwner = :giver AND attribute_not_exists(checkpointOwner)",
            ExpressionAttributeValues={
                ":taker": {"S": taker.worker_id},
                ":giver": {"S": giver.worker_id},
            },
        )
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return False  # the fleet's own leader was faster
    return True
