"""KCL 2.x to 3.x with sublet in the fleet until Java reports completion, and from 3.4's separate tables to 3.5's
single one.

Java's leader goes on only when every worker that holds a lease, sublet's included, has reported for ten minutes, or
says that it can. 3.5 on a table of 2.x has a single table from the start. From 3.4's tables it goes on an hour after
its last step, by the time in its own row, and no setting shortens that: so that time is set back.
"""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass

from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import How, Worker

COMPATIBLE = "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X"
PATIENCE = 1_500.0
STATES = "CoordinatorState"
TABLE_STATE, STATUS, SINCE = "TableMigration3.5", "tm", "mts"
STATUSES = "TABLE_MIGRATION_STATUS_"
BAKE_MILLIS = 3_600_000
"""How long KCL waits for a roll-back, from INIT to DEPLOYED and from PENDING to COMPLETE."""


@dataclass(frozen=True)
class Migration:
    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            old = stage.hire(self.java.kcl(Profile.KCL_2, "1"))
            stage.handles(old)
            stage.hire(self.java.employer.sublet("1"))
            stage.settle("2.x and sublet", stage.alive(), each=True)
            compatible = replaced(stage, old, self.java.kcl(Profile.KCL_3, "1", clientVersion=COMPATIBLE))
            stage.fleet.split()
            becomes(stage, "Migration3.0", "cv", "CLIENT_VERSION_3X_WITH_ROLLBACK")
            replaced(stage, compatible, self.java.kcl(Profile.KCL_3, "2"))
            becomes(stage, "Migration3.0", "cv", "CLIENT_VERSION_3X")
            stage.fleet.merge(1)
            stage.settle("on 3.x", stage.alive())
        stage.drained()


@dataclass(frozen=True)
class Tables:
    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage = self.stage
        with stage.producing():
            separate = stage.hire(self.java.kcl(Profile.KCL_3_4, "1"))
            stage.handles(separate)
            stage.hire(self.java.employer.sublet("1"))
            stage.fleet.split()
            stage.settle("3.4 and sublet", stage.alive(), each=True)
            deployed = replaced(stage, separate, self.java.kcl(Profile.KCL_3, "1"))
            self._bakes("INIT", "DEPLOYED")
            moving: dict[str, str | int] = {
                "singleTable": "true",
                "tableMigrationCompleteBakeTimeSeconds": BAKE_MILLIS // 1_000,
            }
            replaced(stage, deployed, self.java.kcl(Profile.KCL_3, "2", **moving))
            self._bakes("PENDING", "COMPLETE")
            stage.fleet.merge(1)
            stage.settle("on a single table", stage.alive())
        stage.drained()

    def _bakes(self, before: str, after: str) -> None:
        becomes(self.stage, TABLE_STATE, STATUS, STATUSES + before)
        self._set_back(before)
        becomes(self.stage, TABLE_STATE, STATUS, STATUSES + after)

    def _set_back(self, status: str) -> None:
        """As if the hour were over."""
        dynamodb, table = self.stage.fleet.dynamodb, f"{self.stage.fleet.stream}-{STATES}"
        dynamodb.update_item(
            TableName=table,
            Key={"key": {"S": TABLE_STATE}},
            UpdateExpression=f"SET {SINCE} = {SINCE} - :bake",
            ConditionExpression=f"{STATUS} = :status",
            ExpressionAttributeValues={":bake": {"N": str(BAKE_MILLIS)}, ":status": {"S": STATUSES + status}},
        )


def replaced(stage: Stage, before: Worker, worker: Worker) -> Worker:
    """Replaces a worker by the next version, as a rolling deployment does."""
    stage.hire(worker)
    before.stop()
    stage.handles(worker)
    stage.settle(f"{before.worker_id} is stopped", stage.alive())
    return worker


def becomes(stage: Stage, key: str, attribute: str, wanted: str) -> None:
    """Wait until the fleet's state has this value."""
    started = time.monotonic()
    wait_until(
        lambda: _state(stage, key, attribute) == wanted,
        PATIENCE,
        lambda: f"{key} is {_state(stage, key, attribute)}, not {wanted}",
    )
    stage.note(f"{key} is {wanted}", started)


def _state(stage: Stage, key: str, attribute: str) -> str | None:
    """Of the separate table, or of the lease table once it is there."""
    in_lease_table = stage.watch.rows.get(key, {})
    if attribute in in_lease_table:
        return str(in_lease_table[attribute]["S"])
    dynamodb = stage.fleet.dynamodb
    table = f"{stage.fleet.stream}-{STATES}"
    if table not in dynamodb.list_tables()["TableNames"]:
        return None
    row = dynamodb.get_item(TableName=table, Key={"key": {"S": key}}).get("Item", {})
    return row[attribute]["S"] if attribute in row else None
