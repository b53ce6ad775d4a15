"""One split or one merge of shards, and the command of AWS' CLI for it."""

from __future__ import annotations

from msgspec import Struct


class Split(Struct, frozen=True):
    """`at`: Kinesis' NewStartingHashKey; the second child begins there."""

    shard_id: str
    at: int


class Merge(Struct, frozen=True):
    """A merge of two shards whose hash key ranges meet, the lower one first."""

    shard_id: str
    adjacent_shard_id: str


Reshard = Split | Merge


def aws_command(stream: str, change: Reshard) -> str:
    match change:
        case Split(shard_id, at):
            return (
                f"aws kinesis split-shard --stream-name {stream} --shard-to-split {shard_id} "
                f"--new-starting-hash-key {at}"
            )
        case Merge(shard_id, adjacent):
            return (
                f"aws kinesis merge-shards --stream-name {stream} --shard-to-merge {shard_id} "
                f"--adjacent-shard-to-merge {adjacent}"
            )
