"""One job run of the pipeline on EMR Serverless, as values: its workers, its Spark properties, the request that
starts it.

The archives are unpacked into the working directory of the driver and of every executor, each into a folder of its
own name, and Python's path consists of those folders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet.errors import SettingsError

RELEASE = "emr-spark-8.0.0"
"""Spark 4.0.2, EMR's first release whose Spark supports data sources in Python. 8.2.0 has 4.1.3."""

PYTHON = "/usr/bin/python3.11"
"""EMR's images for Spark 4 contain 3.11 to 3.13. `sublet_cdk.dependencies` has packages for 3.11."""

MEMORY_OF_CORES = {1: (2, 8, 1), 2: (4, 16, 1), 4: (8, 30, 1), 8: (16, 60, 4), 16: (32, 120, 8)}
"""EMR Serverless's workers: vCPUs -> minimum and maximum GB, and the step."""

PYTHON_SHARE = 0.5
"""Memory for the Python processes in which the source reads, relative to the JVM's heap. EMR's own default is 0.1."""

DISK = 20
"""GB per worker, EMR's minimum: a batch is kept on disk only if memory cannot hold it."""

EXECUTION_ID = "<aws.scheduler.execution-id>"
"""EventBridge Scheduler replaces it with its own id, the same for each of its attempts, so that a repeated start
starts nothing twice."""


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """The size of the driver, or of one executor. `memory` in GB is the worker's total: heap, and Python beside it."""

    cores: int = 2
    memory: int = 8

    def check(self, name: str) -> None:
        if self.cores not in MEMORY_OF_CORES:
            raise SettingsError(name, self, f"cores: one of {', '.join(map(str, MEMORY_OF_CORES))}")
        least, most, step = MEMORY_OF_CORES[self.cores]
        if not least <= self.memory <= most or ((self.memory - least) % step and self.memory != most):
            raise SettingsError(name, self, f"memory for {self.cores} cores: {least} to {most} GB, in steps of {step}")

    @property
    def heap(self) -> str:
        return f"{int(self.memory * 1024 / (1 + PYTHON_SHARE))}m"


@dataclass(frozen=True, slots=True)
class Fleet:
    driver: WorkerSize
    executor: WorkerSize
    executors_max: int

    def check(self) -> None:
        self.driver.check("driver")
        self.executor.check("executor")
        if not 1 <= self.executors_max <= 1000:
            raise SettingsError("executors_max", self.executors_max, "1 to 1000")

    @property
    def slots(self) -> int:
        """How many tasks run at once, at most."""
        return self.executors_max * self.executor.cores

    @property
    def capacity(self) -> tuple[str, str, str]:
        """The most that a run can use at once, as EMR writes it: cores, memory, disk."""
        cores = self.driver.cores + self.executors_max * self.executor.cores
        memory = self.driver.memory + self.executors_max * self.executor.memory
        return f"{cores} vCPU", f"{memory} GB", f"{DISK * (1 + self.executors_max)} GB"


def check_release(label: str, image_uri: str | None) -> None:
    """Refuse, at synth, a release whose Spark would refuse the source at run time: those named emr-<number> have
    Spark 3. A custom image may contain another Spark."""
    if not re.fullmatch(r"emr-(?:spark-)?\d+\.\d+(?:[.-][\w.-]+)?", label):
        raise SettingsError("release_label", label, f"EMR's name for a release, such as {RELEASE}")
    if not label.startswith("emr-spark-") and image_uri is None:
        raise SettingsError(
            "release_label",
            label,
            f"a release with Spark 4, such as {RELEASE}; this one has Spark 3. Or name an image with Spark 4 as "
            "image_uri",
        )


def spark_properties(
    fleet: Fleet, archives: Mapping[str, str], python: str, region: str, own: Mapping[str, str]
) -> dict[str, str]:
    """`archives`: folder -> S3 address of the zip that is unpacked there. `own`: the user's properties, which may not
    override ours."""
    environment = {
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": ":".join(f"./{folder}" for folder in archives),
        "AWS_DEFAULT_REGION": region,
    }
    ours = {
        "spark.archives": ",".join(f"{address}#{folder}" for folder, address in archives.items()),
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": python,
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in environment.items()},
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
        "spark.driver.cores": str(fleet.driver.cores),
        "spark.driver.memory": fleet.driver.heap,
        "spark.executor.cores": str(fleet.executor.cores),
        "spark.executor.memory": fleet.executor.heap,
        "spark.emr-serverless.memoryOverheadFactor": str(PYTHON_SHARE),
        "spark.dynamicAllocation.maxExecutors": str(fleet.executors_max),
        "spark.dynamicAllocation.initialExecutors": "1",
    }
    for name, value in own.items():
        if name in ours:
            raise SettingsError("spark", name, f"not {value!r} here: the construct sets it")
        if re.search(r"[\s'\"]", name + value):
            raise SettingsError("spark", f"{name}={value}", "no spaces or quotes: EMR splits at spaces")
    return ours | dict(own)


def start_job_run(
    application_id: str,
    role_arn: str,
    name: str,
    entry_point: str,
    arguments: Sequence[str],
    properties: Mapping[str, str],
    timeout_minutes: int,
) -> dict[str, Any]:
    """EMR Serverless's StartJobRun, in the spelling of EventBridge Scheduler. Every text may contain CDK's tokens."""
    return {
        "ApplicationId": application_id,
        "ClientToken": EXECUTION_ID,
        "ExecutionRoleArn": role_arn,
        "Name": name,
        "Mode": "BATCH",
        "ExecutionTimeoutMinutes": timeout_minutes,
        "JobDriver": {
            "SparkSubmit": {
                "EntryPoint": entry_point,
                "EntryPointArguments": list(arguments),
                "SparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in properties.items()),
            }
        },
    }
