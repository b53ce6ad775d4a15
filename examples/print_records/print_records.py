"""The smallest handler: print what comes. Start here to see what a batch is.

It is told everything that can be told; only `handle` is required.
"""

from __future__ import annotations

from sublet import Batch, Checkpoint


def handle(batch: Batch) -> None:
    """Returning means done: the next batch begins after this one. Raising means that this one comes again."""
    first, last = batch.records[0], batch.records[-1]
    print(
        f"{batch.shard_id}: {len(batch.records)} records, {batch.millis_behind_latest} ms behind the latest"
    )
    print(f"  from {first.checkpoint}: {first.partition_key} {first.data[:80]!r}")
    print(f"  to   {last.checkpoint}: {last.partition_key} {last.data[:80]!r}")


def lease_acquired(shard_id: str, checkpoint: Checkpoint) -> None:
    """Before the first batch: a moment to load what is kept per shard."""
    print(f"{shard_id}: acquired at {checkpoint}")


def lease_releasing(shard_id: str) -> None:
    """It is still ours, and about to be given up: a moment to flush. A checkpoint made in here is still written."""
    print(f"{shard_id}: releasing")


def lease_lost(shard_id: str) -> None:
    """Another worker has it: whatever is kept for the shard is stale now."""
    print(f"{shard_id}: lost")


def shard_ended(shard_id: str) -> None:
    """Every record of the shard is handled; its children begin after this. Raising keeps it from being ended."""
    print(f"{shard_id}: ended")
