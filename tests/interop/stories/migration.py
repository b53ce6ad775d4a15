"""KCL 2.x to 3.x with sublet in the fleet, until Java says that it is complete; then 3.5's move to a single table.

Java's leader goes on only when every worker that holds a lease has reported for ten minutes, sublet's too.
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
BAKE_SECONDS = 30
"""KCL's default is days: until it believes that nobody goes back."""
STATES = "CoordinatorState"


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
            compatible = self._deployed(old, "1", clientVersion=COMPATIBLE)
            stage.fleet.split()
            self._becomes("Migration3.0", "cv", "CLIENT_VERSION_3X_WITH_ROLLBACK")
            native = self._deployed(compatible, "2")
            self._becomes("Migration3.0", "cv", "CLIENT_VERSION_3X")
            stage.fleet.merge(1)
            self._deployed(
                native, "3", singleTable="true", tableMigrationCompleteBakeTimeSeconds=BAKE_SECONDS
            )
            self._becomes("TableMigration3.5", "tm", "TABLE_MIGRATION_STATUS_COMPLETE")
            stage.fleet.split()
            stage.settle("on a single table", stage.alive())
        stage.drained()

    def _deployed(self, before: Worker, name: str, **settings: str | int) -> Worker:
        """The next version in the place of the one before, as a rolling deployment does it."""
        worker = self.stage.hire(self.java.kcl(Profile.KCL_3, name, **settings))
        self.stage.handles(worker)
        before.stop()
        self.stage.settle(f"{before.worker_id} is stopped", self.stage.alive())
        return worker

    def _becomes(self, key: str, attribute: str, wanted: str) -> None:
        started = time.monotonic()
        wait_until(
            lambda: self._state(key, attribute) == wanted,
            PATIENCE,
            lambda: f"{key} is {self._state(key, attribute)}, not {wanted}",
        )
        self.stage.note(f"{key} is {wanted}", started)

    def _state(self, key: str, attribute: str) -> str | None:
        """Of the table of its own, or of the lease table once it is there."""
        in_lease_table = self.stage.watch.rows.get(key, {})
        if attribute in in_lease_table:
            return str(in_lease_table[attribute]["S"])
        dynamodb = self.stage.fleet.dynamodb
        table = f"{self.stage.fleet.stream}-{STATES}"
        if table not in dynamodb.list_tables()["TableNames"]:
            return None
        row = dynamodb.get_item(TableName=table, Key={"key": {"S": key}}).get("Item", {})
        return row[attribute]["S"] if attribute in row else None
