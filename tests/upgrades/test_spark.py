"""Checkpoints that 0.2 began are continued by this version, and by 0.2 again: each record once in every table. Lakes
of `sublet pipeline` are adopted by this version, and from then on refused by 0.2.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sublet.protocol.aggregation import aggregate

from infra.local import EmbeddedAws
from infra.local.embedded import ROOT
from infra.local.guard import end_group
from tests.exploring import explores
from tests.upgrades.record import run_by
from tests.upgrades.released import DATA, NOW, Code, released_or_skipped

pytestmark = [pytest.mark.emulator, pytest.mark.slow, explores, pytest.mark.timeout(900)]

SPARK = ROOT / ".local" / "spark" / "bin" / "python"
SPARK_FOR_JARS = ROOT / ".local" / "spark-4.0" / "bin" / "python"
JARS = sorted((ROOT / ".local" / "lake-jars-4.0").glob("*iceberg*.jar"))
PROGRAM = Path(__file__).parent / "programs" / "spark_stage.py"
LAKES = ("parquet", "delta")
QUERIES = ("one", "several", "hold")
REPEATED = ("parquet", "delta", "iceberg", "one", "several")
"""Between two stages the last batch of these is made one that Spark has not noted: the next version plans it again from
the offsets in the log, and writes it once more."""

JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_AUTH_SOCKET_TIMEOUT": "120"}
STAGE_SECONDS = 400


@dataclass
class Lake:
    aws: EmbeddedAws
    folder: Path
    name: str
    count: int = 0
    put: dict[str, set[str]] = field(default_factory=dict)
    """By stream, the positions of its records as the tables have them."""

    def create(self) -> None:
        kinesis = self.aws.client("kinesis")
        for stream in (self.name, self.other):
            kinesis.create_stream(StreamName=stream, ShardCount=2)
            kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
            self.put[stream] = set()

    @property
    def other(self) -> str:
        return f"{self.name}-other"

    def produce(self) -> None:
        """Into both streams, plain records, some of which are no JSON, and one aggregate."""
        kinesis = self.aws.client("kinesis")
        for stream in (self.name, self.other):
            parts = [[self._data()] for _ in range(60)] + [[self._data() for _ in range(5)]]
            for data in parts:
                key = f"key-{self.count}"
                whole = data[0] if len(data) == 1 else aggregate([(key, None, each) for each in data])
                reply = kinesis.put_record(StreamName=stream, PartitionKey=key, Data=whole)
                self.put[stream] |= {f"{reply['SequenceNumber']}/{n}" for n in range(len(data))}
        time.sleep(1.1)  # a run with availableNow reads what is older than a second

    def _data(self) -> bytes:
        self.count += 1
        return b"no JSON" if self.count % 10 == 0 else json.dumps({"id": self.count}).encode()

    def split(self) -> None:
        kinesis = self.aws.client("kinesis")
        shards = kinesis.list_shards(StreamName=self.name)["Shards"]
        shard = next(each for each in shards if "EndingSequenceNumber" not in each["SequenceNumberRange"])
        low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        middle = str((low + high) // 2)
        kinesis.split_shard(StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)
        kinesis.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})

    def read_by(self, code: Code, kinds: Sequence[str], python: Path) -> dict[str, dict[str, int]]:
        """What is in the tables of each kind after a run of that version's own code."""
        found, log = self.run(code, kinds, python)
        missing = [kind for kind in kinds if kind not in found]
        assert not missing, f"{code.version} did not read {missing}: {log}"
        return found

    def run(self, code: Code, kinds: Sequence[str], python: Path) -> tuple[dict[str, dict[str, int]], str]:
        """The same, as far as it came; and what it said."""
        given = {**self.aws.environment, **JAVA, "PYSPARK_PYTHON": str(python)}
        given["LAKE_JARS"] = ",".join(map(str, JARS))
        log = self.folder / f"log-{code.version}"
        with log.open("w") as errors:
            run = subprocess.Popen(
                [str(python), str(PROGRAM), str(self.folder), self.name, self.other, *kinds],
                cwd=self.folder,
                env=code.environment(given),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            try:
                said, _ = run.communicate(timeout=STAGE_SECONDS)
            finally:
                end_group(run)
        found = dict(json.loads(line) for line in said.splitlines() if line.startswith('["'))
        return found, f"{said[-1500:]}{log.read_text()[-3500:]}"

    def expected(self, kind: str) -> set[str]:
        streams = (self.name, self.other) if kind == "several" else (self.name,)
        return {position for stream in streams for position in self.put[stream]}

    def forget_last_commit(self, kinds: Sequence[str]) -> None:
        """As if Spark had died between the write of a batch and its own note of it."""
        for kind in set(kinds) & set(REPEATED):
            commits = self.folder / kind / "checkpoint" / "commits"
            last = max((each for each in commits.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
            for file in (last, commits / f".{last.name}.crc"):
                file.unlink(missing_ok=True)


@pytest.fixture
def released() -> Code:
    return released_or_skipped()


@pytest.fixture
def lake(embedded_aws: EmbeddedAws, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(embedded_aws, tmp_path, f"lake-{uuid.uuid4().hex[:8]}")
    lake.create()
    yield lake
    shutil.rmtree(tmp_path)


def goes_there_and_back(lake: Lake, released: Code, kinds: Sequence[str], python: Path) -> None:
    for code, change in ((released, "split"), (NOW, "split"), (released, ""), (NOW, "")):
        is_continued_by(code, lake, kinds, python)
        if change:
            lake.split()


def is_adopted(lake: Lake, released: Code, kinds: Sequence[str], python: Path) -> None:
    for code in (released, NOW):
        is_continued_by(code, lake, kinds, python)
        lake.split()
    for kind in kinds:
        found, said = lake.run(released, [kind], python)
        assert not found
        assert "as of a newer sublet, which 0.2 cannot continue" in said
    is_continued_by(NOW, lake, kinds, python)


def is_continued_by(code: Code, lake: Lake, kinds: Sequence[str], python: Path) -> None:
    lake.produce()
    found = lake.read_by(code, kinds, python)
    wrong = [text for kind in kinds for text in differences(kind, found[kind], lake.expected(kind))]
    assert not wrong, f"after a run of {code.version}: {'; '.join(wrong)}"
    lake.forget_last_commit(kinds)


def differences(kind: str, found: dict[str, Any], put: set[str]) -> list[str]:
    without_stream = {position.partition("/")[2]: count for position, count in found.items()}
    lost, again = put - without_stream.keys(), [each for each, count in without_stream.items() if count > 1]
    unknown = without_stream.keys() - put
    said = [("lost", lost), ("repeated", again), ("not put", unknown)]
    return [f"{kind}: {len(which)} records {word}, such as {min(which)}" for word, which in said if which]


@pytest.mark.skipif(not SPARK.exists(), reason="`make .local/spark/.installed` makes Spark's environment")
def test_a_checkpoint_of_each_kind_goes_from_0_2_to_now_and_back(released: Code, lake: Lake) -> None:
    goes_there_and_back(lake, released, QUERIES, SPARK)


@pytest.mark.skipif(not SPARK.exists(), reason="`make .local/spark/.installed` makes Spark's environment")
def test_lakes_of_0_2_are_adopted(released: Code, lake: Lake) -> None:
    is_adopted(lake, released, LAKES, SPARK)


@pytest.mark.skipif(not SPARK.exists(), reason="`make .local/spark/.installed` makes Spark's environment")
def test_every_import_that_the_documents_of_0_2_show_works_beside_spark() -> None:
    """What needs pyspark is only looked for elsewhere."""
    names = json.loads((DATA / "names.json").read_text())
    here = [name for name in names if not name.startswith("sublet_cdk")]
    assert run_by(NOW, "import_names", given=here, python=str(SPARK)) == {}


@pytest.mark.skipif(not JARS or not SPARK_FOR_JARS.exists(), reason="`make test-lake` gets Iceberg's jar and Spark 4.0")
def test_iceberg_tables_of_0_2_are_adopted(released: Code, lake: Lake) -> None:
    is_adopted(lake, released, ["iceberg"], SPARK_FOR_JARS)
