"""The smallest handler: print each batch. Start here to see what a batch is.

It has every optional function too; only `handle` is required.
"""

from __future__ import annotations

from sublet import Batch, Checkpoint


def handle(batch: Batch) -> None:
    """If this returns, the batch is done, and the next batch begins after it. If it raises, the batch comes again."""
    first, last = batch.records[0], batch.records[-1]
    print(f"{batch.shard_id}: {len(batch.records)} records, {batch.millis_behind_latest} ms behind the latest")
    print(f"  from {first.checkpoint}: {first.partition_key} {first.data[:80]!r}")
    print(f"  to   {last.checkpoint}: {last.partition_key} {last.data[:80]!r}")


def lease_acquired(shard_id: str, checkpoint: Checkpoint) -> None:
    """Called before the first batch: load state that is kept per shard here."""
    print(f"{shard_id}: acquired at {checkpoint}")


def lease_releasing(shard_id: str) -> None:
    """Called before the lease is released, while we still hold it: flush here. A checkpoint made here is still
    written.
    """
    print(f"{shard_id}: releasing")


def lease_lost(shard_id: str) -> None:
    """Called when another worker has the lease. Any state that is kept for the shard is stale."""
    print(f"{shard_id}: lost")


def shard_ended(shard_id: str) -> None:
    """Called when every record of the shard is handled. Its children begin after this. Raising prevents the end."""
    print(f"{shard_id}: ended")
