"""A Spark query with `leases=hold` continues where Java's KCL stopped, through reshards, and Java continues after the
query."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from infra.local.embedded import ROOT
from tests.interop.build import Profile
from tests.interop.workers import Java
from tests.mixed_fleet.stage import Stage
from tests.mixed_fleet.workers import How, Side, Worker

SPARK_PYTHON = ROOT / ".local" / "spark" / "bin" / "python"


@dataclass(frozen=True)
class Spark:
    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED,)

    def run(self) -> None:
        stage, application = self.stage, self.java.employer.application
        stage.fleet.dynamodb.create_table(
            TableName=f"{application}-sightings",
            KeySchema=[{"AttributeName": "chunk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "chunk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        with stage.producing():
            self._has_everything(self.java.kcl(Profile.KCL_2, "1"))
            stage.alive()[0].stop()
            self._has_everything(self._query())
            stage.fleet.split()
            stage.settle("a split, on Spark", stage.alive())
            stage.fleet.merge(1)
            stage.settle("a merge, on Spark", stage.alive())
            stage.alive()[0].stop()
            self._has_everything(self.java.kcl(Profile.KCL_3, "1"))
        stage.drained()

    def _has_everything(self, worker: Worker) -> None:
        self.stage.hire(worker)
        self.stage.handles(worker)
        self.stage.settle(f"{worker.worker_id} has every lease", [worker])

    def _query(self) -> Worker:
        """Its worker id follows from the application's name."""
        employer = self.java.employer
        program = str(ROOT / "tests" / "interop" / "spark_worker.py")
        arguments = [
            employer.application,
            employer.stream,
            str(employer.failover_seconds),
            str(employer.folder),
        ]
        return employer.start(
            Side.SUBLET,
            f"{employer.application}-spark",
            [str(SPARK_PYTHON), program, *arguments],
            {"PYSPARK_PYTHON": str(SPARK_PYTHON), "HOME": str(employer.folder)},
        )
