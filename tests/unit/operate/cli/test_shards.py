"""`sublet shards`: the tree as lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.operate.cli.monitor.shards import tree_lines
from sublet.operate.rules.shard_tree import shard_tree
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX, HashKeyRange

from tests.doubles.fleet import shard_status

HALF = HashKeyRange(0, HASH_KEY_MAX // 2)
ROOT = shard_status(0, Status.ENDED, StatusReason.READ_TO_ITS_END, state=ShardState.ENDED, hash_key_range=FULL_RANGE)
LEFT = shard_status(
    1,
    Status.BEHIND,
    StatusReason.LAG_NEVER_FELL,
    lag=timedelta(minutes=9),
    parents=frozenset({ROOT.shard_id}),
    hash_key_range=HALF,
)
RIGHT = shard_status(
    2, Status.OK, StatusReason.NOTHING_WAITS, lag=timedelta(0), parents=frozenset({ROOT.shard_id}), owner="ja\x1bva"
)
MERGED = shard_status(
    3,
    Status.WAITING,
    StatusReason.PARENTS,
    parents=frozenset({LEFT.shard_id, RIGHT.shard_id}),
    owner=None,
    waits_for=frozenset({LEFT.shard_id}),
)


def test_children_are_below_their_parents_and_a_merged_shard_names_the_other() -> None:
    assert list(tree_lines(shard_tree((ROOT, LEFT, RIGHT, MERGED)))) == [
        "shardId-000000000000          ENDED           100.0%",
        "|-- shardId-000000000001      BEHIND       9m  50.0%  orders-audit-lambda-0    lag has never fallen",
        (
            f"|   `-- shardId-000000000003  WAITING       -      -  {'-':<24} also of shardId-000000000002; "
            f"{MERGED.because}"
        ),
        "`-- shardId-000000000002      OK           0s      -  'ja\\x1bva'               nothing waits",
    ]


def test_shards_escapes_control_characters_of_a_row() -> None:
    odd = replace(LEFT, shard_id="shard\x1b[2J", owner="own\ner")
    assert all(line.isprintable() for line in tree_lines(shard_tree((odd,))))
