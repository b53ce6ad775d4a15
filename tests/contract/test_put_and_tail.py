"""`sublet put --from` and `sublet tail --output` as a user starts them, on the embedded AWS."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path

import boto3
import pyarrow.parquet
import pytest
from sublet.operate.cli.main import main

from infra.local import EmbeddedAws

pytestmark = pytest.mark.emulator

LINES = 40


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stream of two shards, and the file lines.json in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    name = f"orders-{uuid.uuid4().hex[:8]}"
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    lines = [json.dumps({"customer": f"customer-{number % 4}", "id": number}) for number in range(LINES)]
    (tmp_path / "lines.json").write_text("\n".join(lines) + "\n")
    return name


def rows(stream: str, *words: str) -> list[dict[str, str]]:
    file = Path(f"rows-{uuid.uuid4().hex}.csv")
    assert main(["tail", "--stream", stream, "--since", "earliest", "--no-follow", *words, "--to", str(file)]) == 0
    return list(csv.DictReader(file.read_text().splitlines()))


def test_records_put_from_a_file_are_tailed_into_one(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["put", "--from", "lines.json", "--stream", stream, "--key", "{customer}"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == LINES
    found = rows(stream, "--output", "csv")
    by_key: dict[str, list[int]] = {}
    for row in found:
        by_key.setdefault(row["partition_key"], []).append(json.loads(row["value"])["id"])
    assert by_key == {f"customer-{key}": list(range(key, LINES, 4)) for key in range(4)}
    few = rows(stream, "--output", "csv", "--where", 'id < 10 and customer == "customer-1"')
    assert [json.loads(row["value"])["id"] for row in few] == [1, 5, 9]


def test_a_put_that_is_interrupted_goes_on_where_it_says(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("put", "--from", "lines.json", "--stream", stream, "--key", "{customer}")
    with subprocess.Popen(
        [sys.executable, "-m", "sublet", *words, "--rate", "10/s"],
        env={"PATH": os.environ["PATH"], **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 -- a background job ignores it
    ) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    found = re.search(r"sublet: (\d+) records were put; go on with --skip (\d+)\n", said)
    assert found is not None, said
    assert found[1] == found[2]
    assert 5 <= int(found[1]) < LINES
    assert main([*words, "--skip", found[2]]) == 0
    assert sorted(json.loads(row["value"])["id"] for row in rows(stream, "--output", "csv")) == list(range(LINES))


def test_a_line_without_the_field_is_named(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lines.json").write_text('{"customer": "a"}\n{"id": 7}\n')
    assert main(["put", "--from", "lines.json", "--stream", stream, "--key", "{customer}"]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "sublet: line 2: the record has no field customer, which the partition key is made of; "
        "1 record before it was put; go on with --skip 1\n"
    )
    assert len(said.out.splitlines()) == 1


def test_a_tail_into_parquet_ends_at_ctrl_c_with_a_whole_file(stream: str) -> None:
    assert main(["put", "--from", "lines.json", "--stream", stream]) == 0
    words = ("tail", "--stream", stream, "--since", "earliest", "--output", "parquet", "--to", "rows.parquet")
    with subprocess.Popen(
        [sys.executable, "-m", "sublet", *words],
        env={"PATH": os.environ["PATH"], **os.environ},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 -- a background job ignores it
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(15)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, f"sublet: {LINES} records are in rows.parquet\n")
    assert pyarrow.parquet.read_table("rows.parquet").num_rows == LINES
