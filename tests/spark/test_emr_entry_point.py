"""What SparkPipeline deploys, run as EMR Serverless runs it: spark-submit with the entry point's file, Spark's own
PySpark, the interpreter beneath this environment, and the archives' folders first on its path."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest
from sublet_cdk.dependencies import EMR, cache_folder, place
from sublet_cdk.spark_job import Fleet, WorkerSize, spark_properties

from infra.local import EmbeddedAws
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"aarch64": "arm64", "x86_64": "x86_64"}.get(platform.machine(), "")
DEPENDENCIES = place(EMR, MACHINE, cache_folder(os.environ))
PYTHON = Path(sys.executable).resolve()
"""Beneath the virtual environment, whose packages it does not see."""

DRIVER = "spark.emr-serverless.driverEnv."

if sys.platform != "linux" or sys.version_info[:2] != (3, 11) or not (DEPENDENCIES / "pyarrow").is_dir():
    pytest.skip("`make emr` builds for Linux and Python 3.11", allow_module_level=True)


def submit(aws: EmbeddedAws, folder: Path, arguments: list[str]) -> str:
    """Run once in `folder`; returns its output."""
    archives = {"library": ROOT / "layers" / "sublet" / "python", "dependencies": DEPENDENCIES}
    for name, path in archives.items():
        (folder / name).symlink_to(path)
    told = spark_properties(
        Fleet(WorkerSize(1, 4), WorkerSize(1, 4), 1), dict.fromkeys(archives, "s3://"), str(PYTHON), "eu-west-1", {}
    )
    environment = {name.removeprefix(DRIVER): value for name, value in told.items() if DRIVER in name}
    home = Path(pyspark.__file__).parent
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.pyspark.python={told['spark.pyspark.python']}"),
        *("--conf", f"spark.pyspark.driver.python={told['spark.pyspark.driver.python']}"),
        *("--driver-memory", "1g", str(ROOT / "functions" / "spark_pipeline" / "app.py"), *arguments),
    ]
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**kept, "SPARK_HOME": str(home), **environment, **aws.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            said, _ = run.communicate(timeout=550)
        finally:
            kill_session(run.pid)
    assert run.returncode == 0, said[-3000:]
    return said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_brings_the_stream_into_tables(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    stream = BusyStream(embedded_aws.client("kinesis"), f"emr-{os.getpid()}", 5)
    stream.produce()
    output = tmp_path / "tables"
    said = submit(
        embedded_aws,
        tmp_path,
        ["--available-now", "--metrics", "--stream", stream.name, "--output", str(output)],
    )
    rows = ds.dataset(output / "raw", partitioning="hive").to_table(columns=["data"])
    assert sorted(rows["data"].to_pylist()) == sorted(stream.produced)
    metrics = [json.loads(line) for line in said.splitlines() if line.startswith('{"_aws"')]
    assert sum(sum(line["records"]) for line in metrics if "records" in line) == len(stream.produced)
