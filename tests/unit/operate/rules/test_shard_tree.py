"""Shards under those that they came of."""

from __future__ import annotations

from sublet.decisions.status.fleet_status import fleet_status
from sublet.operate.rules.shard_tree import shard_tree
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan

from tests.doubles.fleet import NOW, SETTINGS


def tree(**parents: str) -> list[tuple[str, tuple[bool, ...], str | None]]:
    """By shard, the letters of its parents."""
    leases = tuple(Lease(name, TRIM_HORIZON, parent_shard_ids=frozenset(of)) for name, of in parents.items())
    branches = shard_tree(fleet_status(LeaseScan(leases), NOW, SETTINGS).shards)
    return [(each.shard.shard_id, each.is_last, each.also_of) for each in branches]


def test_a_split_and_a_merge() -> None:
    assert tree(a="", b="a", c="a", d="bc", e="") == [
        ("a", (), None),
        ("b", (False,), None),
        ("d", (False, True), "c"),
        ("c", (True,), None),
        ("e", (), None),
    ]


def test_a_shard_whose_parent_s_lease_is_cleaned_up_is_a_root() -> None:
    assert tree(b="a", c="a") == [("b", (), None), ("c", (), None)]


def test_shard_tree_uses_the_parent_that_is_still_known() -> None:
    assert tree(b="", d="ab") == [("b", (), None), ("d", (True,), "a")]


def test_rows_that_name_each_other_are_there_once() -> None:
    assert [name for name, *_ in tree(a="b", b="a", c="c")] == ["a", "b", "c"]


def test_a_long_line_of_descent_is_no_recursion() -> None:
    names = [f"s{n:05}" for n in range(3_000)]
    leases = tuple(
        Lease(name, TRIM_HORIZON, parent_shard_ids=frozenset(names[n - 1 : n] if n else ()))
        for n, name in enumerate(names)
    )
    branches = shard_tree(fleet_status(LeaseScan(leases), NOW, SETTINGS).shards)
    assert [each.shard.shard_id for each in branches] == names
