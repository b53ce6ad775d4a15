"""The lease worker that `benchmarks.memory` measures: AWS's clients for the stream, memory for the rest."""

from __future__ import annotations

import time

from sublet import Batch, Checkpoint, Mode, Settings
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import Claim, WorkerItem
from sublet.engine.worker.worker import LeaseWorker
from sublet.protocol.checkpoint import TRIM_HORIZON, PendingCheckpoint
from sublet.protocol.lease import Lease
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.system.garbage_collection import collect_seldom
from sublet.system.heap import use_one_heap
from sublet.testing.memory import MemoryLeaseTable, memory_ports

ALMOST_ALL = HashKeyRange(0, HASH_KEY_MAX - 1)
"""All hash keys but one: with a shard's full range, no key would need to be checked."""


class Counting:
    """The Handler port, for a slow handler."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.records = self.calls = self.most = 0

    def handle(self, batch: Batch) -> None:
        time.sleep(self._seconds)
        self.records += len(batch.records)
        self.calls += 1
        self.most = max(self.most, len(batch.records))

    def lease_acquired(
        self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None
    ) -> None: ...

    def lease_releasing(self, shard_id: str) -> None: ...

    def lease_lost(self, shard_id: str) -> None: ...

    def shard_ended(self, shard_id: str) -> None: ...


def worker_of(stream: str, handler: Counting, leases: int) -> tuple[LeaseWorker, WorkerItem]:
    """Composed as in the runtimes."""
    use_one_heap()
    settings = Settings(application="memory", stream=stream, mode=Mode.CATCH_UP)
    shards = [f"shardId-{number:012}" for number in range(leases)]
    table = MemoryLeaseTable(
        [Lease(shard, TRIM_HORIZON, lease_counter=0, hash_key_range=ALMOST_ALL) for shard in shards]
    )
    kinesis = KinesisStream(kinesis_client(), kinesis_poll_client(), settings)
    claims = tuple(Claim(shard, None, 0, ClaimReason.FREE) for shard in shards)
    collect_seldom()
    return LeaseWorker(memory_ports(kinesis, table), handler, settings), WorkerItem(
        "item", "worker", claims, windows_left=1
    )
