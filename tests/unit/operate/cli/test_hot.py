"""`sublet hot`: its lines and its JSON."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import pytest
from msgspec.structs import replace
from sublet.decisions.load.resharding import Merge, Split
from sublet.errors import CheckRefused
from sublet.operate.cli.monitor.hot import as_json, chosen, exact, is_executed, lines_of
from sublet.operate.rules.hot_shards import HotShard, StreamLook, hot_shards
from sublet.protocol.shard import FULL_RANGE, Shard
from sublet.protocol.stream_info import StreamMode
from sublet.testing.memory import memory_ports

from tests.doubles.traffic import Traffic, sketch_of


def judged(*traffic: Traffic) -> HotShard:
    sketch = sketch_of("shardId-0", traffic, seconds=10)
    look = StreamLook(StreamMode.PROVISIONED, None, (Shard("shardId-0", FULL_RANGE),), (), {"shardId-0": sketch})
    [found] = hot_shards(look)
    return found


def test_a_dominant_key_is_named_with_the_advice() -> None:
    first, peak, key, then = lines_of([judged(Traffic("big", 950, 1000))], "orders")
    assert first.startswith("shardId-0              95%  one key: one partition key brings at least 100%")
    assert "0.91 of 1 MiB, 950 of 1,000 records, at 2026-01-31" in peak
    assert key.strip() == "at least 100% of the load: big"
    assert "salt it" in then


def test_a_split_has_its_command_and_its_price() -> None:
    shard = judged(Traffic("user", 950, 1000, keys=100))
    assert shard.split is not None
    *_, command = lines_of([shard], "orders")
    assert command.strip() == (
        f"aws kinesis split-shard --stream-name orders --shard-to-split shardId-0 --new-starting-hash-key "
        f"{shard.split.at}  (+$10.95 a month)"
    )
    said = json.loads(json.dumps(as_json(shard, "orders")))
    assert said["split"]["at"] == str(shard.split.at)
    assert said["command"] in command
    assert said["is_sampled"] is True


def test_a_merge_is_made_only_of_a_shard_that_is_named() -> None:
    """The shards of a stream whose producers are about to start are idle."""
    merge, split = Merge("shardId-0", "shardId-1"), Split("shardId-0", 5)
    assert [is_executed(change, is_named=False) for change in (merge, split)] == [False, True]
    assert is_executed(merge, is_named=True)


def test_hot_prints_one_line_for_a_fine_shard_and_no_control_characters() -> None:
    fine = judged(Traffic("big", 5, 10))
    assert len(list(lines_of([fine], "orders"))) == 1
    odd = replace(judged(Traffic("b\x1b[2J", 950, 1000)), shard_id="shard\x1b[2J")
    assert all(line.isprintable() for line in lines_of([odd], "orders"))


def test_a_key_without_a_name_is_shown_by_its_md5() -> None:
    shard = judged(Traffic("big", 950, 1000))
    hidden = replace(shard, keys=tuple(replace(key, name=None) for key in shard.keys))
    assert "MD5 d861877da56b8b4ceb35c8cbfdf65bb4" in "\n".join(lines_of([hidden], "orders"))


def test_hot_prints_one_line_without_open_shards() -> None:
    assert list(lines_of([], "orders")) == ["the stream has no open shard"]


def test_a_shard_that_is_not_there_is_an_error_and_not_a_cool_shard() -> None:
    found = [judged(Traffic("big", 950, 1000))]
    assert chosen(found, ["shardId-0"], "orders") == chosen(found, [], "orders") == found
    with pytest.raises(CheckRefused, match="orders has no open shard shardId-1; `sublet shards`"):
        chosen(found, ["shardId-0", "shardId-1"], "orders")


def test_hot_exact_without_spark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sublet.spark.exact_sketches", None)
    with pytest.raises(CheckRefused, match=r"needs Spark, which is not installed .*: install sublet\[spark\]"):
        exact("orders", memory_ports(), timedelta(minutes=10))
