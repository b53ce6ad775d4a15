"""Java's multi-stream KCL and sublet on one lease table of two streams: `python -m tests.interop several-2 several-3`.

Each takes from and gives to the other: Java begins, sublet goes on where a stopped Java left, both share the leases,
one takes over from a killed one through a reshard. No record is lost, a graceful stop repeats none, and a row's
key and names are the same whichever side wrote it last.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.local.embedded import EmbeddedAws
from tests.e2e.deliveries import wait_until
from tests.interop.build import Profile
from tests.interop.workers import SIDES, Java
from tests.mixed_fleet.workers import Employer, Side, Worker

APPLICATION = "interop-several"
STREAMS = ("orders", "payments")
SHARDS = 2
FAILOVER_SECONDS = 5
PATIENCE = 240.0
EACH = 20
"""Records of a stream in each part of the story."""


@dataclass
class SeveralStreams:
    """`play` it once. Raises AssertionError."""

    aws: EmbeddedAws
    profile: Profile
    folder: Path
    tell: Callable[[str], None]
    put: list[str] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kinesis, self.dynamodb = self.aws.client("kinesis"), self.aws.client("dynamodb")
        self.keys: dict[str, str] = {}
        (self.folder / "delay").write_text("0")

    def play(self) -> None:
        for name in STREAMS:
            self.kinesis.create_stream(StreamName=name, ShardCount=SHARDS)
            self.kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
            found = self.kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
            account, epoch = (
                found["StreamARN"].split(":")[4],
                int(found["StreamCreationTimestamp"].timestamp()),
            )
            self.keys[name] = f"{account}:{name}:{epoch}"
        try:
            self._play()
        finally:
            for worker in self.workers:
                if worker.process.poll() is None:
                    worker.kill()

    def _play(self) -> None:
        java = self._java("1")
        self._handled("Java reads both streams")
        self._owned_by(java)
        java.stop()
        before = self._deliveries()
        sublet = self._sublet("1")
        self._handled("sublet goes on where Java left")
        self._owned_by(sublet)
        repeated = [text for text in before if self._deliveries()[text] > before[text]]
        assert not repeated, f"after a graceful stop of Java came again: {repeated}"
        if self.profile is Profile.KCL_2:
            self._together(sublet)
        else:
            self._led(sublet)
        self._check_rows()

    def _together(self, sublet: Worker) -> None:
        """Each worker of KCL 2.x takes its share."""
        second = self._java("2")
        self._shared(sublet, second)
        self._handled("both read")
        self._split(STREAMS[0])
        self._handled("through a split")
        second.kill()
        self._handled("sublet has all leases of a Java that was killed")
        self._owned_by(sublet)
        third = self._java("3")
        self._shared(sublet, third)
        sublet.kill()
        self._split(STREAMS[1])
        self._handled("Java has all leases of a sublet that was killed")
        self._owned_by(third)
        third.stop()

    def _led(self, sublet: Worker) -> None:
        """A leader of KCL 3.x moves no lease of workers that have little to do, so each takes over from the other."""
        second = self._java("2")
        self._split(STREAMS[0])
        self._handled("through a split, beside a Java that leads")
        sublet.kill()
        self._handled("Java has all leases of a sublet that was killed")
        self._owned_by(second)
        third = self._sublet("2")
        second.kill()
        self._handled("sublet has all leases of a Java that was killed")
        self._owned_by(third)
        third.stop()

    def _java(self, name: str) -> Worker:
        streams = ",".join(self.keys.values())
        worker = Java(self._employer(streams)).kcl(self.profile, name)
        self.workers.append(worker)
        return worker

    def _sublet(self, name: str) -> Worker:
        worker = self._employer("").sublet(name, streams=",".join(STREAMS))
        self.workers.append(worker)
        return worker

    def _employer(self, stream: str) -> Employer:
        return Employer(self.aws, APPLICATION, stream, self.folder, failover_seconds=FAILOVER_SECONDS)

    def _handled(self, what: str) -> None:
        """Put records, and wait until each is handled."""
        started = time.monotonic()
        texts: list[str] = []
        for name in STREAMS:
            for n in range(EACH):
                text = f"{name}-{len(self.put) + len(texts)}-{n}"
                self.kinesis.put_record(StreamName=name, Data=text.encode(), PartitionKey=text)
                texts.append(text)
        self.put += texts
        wait_until(
            lambda: set(self.put) <= self._deliveries().keys(),
            PATIENCE,
            lambda: f"{what}: not handled: {sorted(set(self.put) - self._deliveries().keys())[:5]}; {self.folder}",
        )
        self.tell(f"{time.monotonic() - started:6.1f} s  {what}  {dict(self._owners())}")

    def _deliveries(self) -> Counter[str]:
        lines = [line for file in self.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
        return Counter(json.loads(line)[-1] for line in lines if line.endswith("]"))

    def _rows(self) -> list[Mapping[str, Any]]:
        items: list[Mapping[str, Any]] = self.dynamodb.scan(TableName=APPLICATION, ConsistentRead=True)["Items"]
        return [item for item in items if item.get("entityType", {"S": "LEASE"}) == {"S": "LEASE"}]

    def _owners(self) -> Counter[str]:
        unfinished = [row for row in self._rows() if row["checkpoint"] != {"S": "SHARD_END"}]
        return Counter(row.get("leaseOwner", {}).get("S", "-") for row in unfinished)

    def _owned_by(self, worker: Worker) -> None:
        wait_until(
            lambda: self._owners().keys() == {worker.worker_id},
            PATIENCE,
            lambda: f"not all leases are {worker.worker_id}'s: {self._owners()}; {self.folder}",
        )

    def _shared(self, *workers: Worker) -> None:
        names = {worker.worker_id for worker in workers}
        wait_until(
            lambda: self._owners().keys() == names,
            PATIENCE,
            lambda: f"not each of {names} has leases: {self._owners()}; {self.folder}",
        )

    def _split(self, name: str) -> None:
        shard = next(
            each
            for each in self.kinesis.list_shards(StreamName=name)["Shards"]
            if "EndingSequenceNumber" not in each["SequenceNumberRange"]
        )
        keys = shard["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        self.kinesis.split_shard(StreamName=name, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(middle))

    def _check_rows(self) -> None:
        """As KCL's DynamoDBMultiStreamLeaseSerializer writes them, by both."""
        for row in self._rows():
            key, stream, shard_id = (row[name]["S"] for name in ("leaseKey", "streamName", "shardId"))
            assert key == f"{stream}:{shard_id}", row
            assert stream in self.keys.values(), row
            related = {
                *row.get("parentShardId", {}).get("SS", ()),
                *row.get("childShardIds", {}).get("SS", ()),
            }
            assert all(each.startswith("shardId-") for each in related), row
        sides = {worker.side for worker in self.workers}
        assert sides == {SIDES[self.profile], Side.SUBLET}


def is_well(aws: EmbeddedAws, profile: Profile) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"sublet-interop-several-{profile}-"))
    try:
        SeveralStreams(aws, profile, folder, lambda line: print(line, flush=True)).play()
    except AssertionError as wrong:
        print(f"{wrong}\nlogs and records: {folder}")
        return False
    shutil.rmtree(folder)
    return True
