"""Nothing that Spark keeps or shows contains credentials: plans, progress, its event log (its UI), the checkpoint,
the logs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from infra.local import EmbeddedAws
from tests.doubles.sts import Keys, Sts, sts
from tests.exploring import explores
from tests.spark.assumed_role_program import ROLE
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session

ROOT = Path(__file__).resolve().parents[2]
EXTERNAL_ID = "external-id-of-ours"


def run_program(aws: EmbeddedAws, folder: Path, stream: str, server: Sts) -> subprocess.CompletedProcess[str]:
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **aws.environment, **own}
    command = [
        sys.executable,
        "-m",
        "tests.spark.assumed_role_program",
        str(folder),
        stream,
        server.url,
        EXTERNAL_ID,
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            said, errors = program.communicate(timeout=250)
        finally:
            kill_session(program.pid)
    return subprocess.CompletedProcess(command, program.returncode, said, errors)


def kept(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes().decode("latin-1")


@explores
@pytest.mark.timeout(300)
def test_credentials_and_the_external_id_are_shown_nowhere(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """The role's are the emulator's own, which accepts no others."""
    stream = BusyStream(embedded_aws.client("kinesis"), f"roles-{os.getpid()}", 5)
    stream.produce()
    own = embedded_aws.environment
    keys = Keys(own["AWS_ACCESS_KEY_ID"], own["AWS_SECRET_ACCESS_KEY"])
    hidden = (own["AWS_ACCESS_KEY_ID"], keys.secret, keys.token, EXTERNAL_ID)
    with sts(timedelta(hours=1), keys) as server:
        run = run_program(embedded_aws, tmp_path, stream.name, server)
    assert run.returncode == 0, run.stderr[-3000:]
    rows = str(len(stream.produced))
    assert f"batch {rows}" in run.stdout
    assert f"stream {rows}" in run.stdout
    assert {asked["ExternalId"] for asked in server.asked} == {EXTERNAL_ID}, "the role was assumed"
    shown = {"standard output": run.stdout, "standard error": run.stderr, **dict(kept(tmp_path))}
    assert f"roleArn={ROLE}" in run.stdout, "plans are there"
    assert any("SparkListenerSQLExecutionStart" in text for text in shown.values()), (
        "and can be read in the log of events"
    )
    assert [(name, text) for name, whole in shown.items() for text in hidden if text in whole] == []
