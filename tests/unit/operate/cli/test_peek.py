"""`sublet peek` shows the next records, and moves nothing."""

from __future__ import annotations

import base64
import json
from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.errors import ShardNotFound
from sublet.operate.cli.options.arguments import place
from sublet.operate.cli.positions import skip
from sublet.operate.cli.records.peek import wanted
from sublet.operate.cli.text.record_text import RecordForm, count, json_of, text_of
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import LATEST, SHARD_END, Checkpoint

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

MINUTE = timedelta(minutes=1)


def peeked(world: EngineWorld, **options: object) -> list[bytes]:
    defaults: dict[str, object] = {
        "shard": SHARD,
        "place": None,
        "key": None,
        "grep": None,
        "application": "orders",
    }
    return [record.data for record in wanted(Namespace(**{**defaults, **options}), world.ports, world.settings)]


def world_with_records() -> EngineWorld:
    """A plain record, an aggregate of three, and a plain one, a minute apart. The lease is in the middle of the
    aggregate.
    """
    world = EngineWorld(NO_WAITING)
    world.shards.put("a", b"1")
    world.clock.advance(MINUTE)
    number = world.shards.put("a", aggregate([("a", None, b"2"), ("b", None, b"3"), ("a", None, b"4")]))
    world.clock.advance(MINUTE)
    world.shards.put("b", b"5\x1b")
    world.change_lease(checkpoint=Checkpoint(number, 0))
    return world


def test_peek_starts_at_the_checkpoint_within_an_aggregate() -> None:
    world = world_with_records()
    before = world.table.real.rows()
    assert peeked(world) == [b"3", b"4", b"5\x1b"]
    assert world.table.real.rows() == before


def test_peek_applies_the_applications_settings() -> None:
    world = world_with_records()
    of_settings = replace(world.settings, deaggregate=False)
    shown = wanted(
        Namespace(shard=SHARD, place=None, key=None, grep=None, application="orders"),
        world.ports,
        of_settings,
    )
    assert [record.is_aggregated for record in shown] == [False, False]
    criteria = json.dumps({"Filters": [{"Pattern": {"data": [{"prefix": "5"}]}}]})
    of_settings = replace(world.settings, filter_criteria=criteria)
    shown = wanted(
        Namespace(shard=SHARD, place=None, key=None, grep=None, application="orders"),
        world.ports,
        of_settings,
    )
    assert [record.data for record in shown] == [b"5\x1b"]


@pytest.mark.parametrize(
    ("options", "data"),
    [
        ({"place": place("earliest")}, [b"1", b"2", b"3", b"4", b"5\x1b"]),
        ({"place": place("30s")}, [b"5\x1b"]),
        ({"key": "b"}, [b"3", b"5\x1b"]),
        ({"grep": "4"}, [b"4"]),
    ],
)
def test_peek_follows_its_options(options: dict[str, object], data: list[bytes]) -> None:
    world = world_with_records()
    world.clock.advance(timedelta(seconds=10))
    assert peeked(world, **options) == data


def test_peek_shows_nothing_of_an_ended_shard() -> None:
    world = world_with_records()
    world.change_lease(checkpoint=SHARD_END)
    assert peeked(world) == []


def test_a_shard_without_a_lease_is_named() -> None:
    with pytest.raises(ShardNotFound, match="shard shardId-9 has no lease in orders: give --from"):
        peeked(EngineWorld(NO_WAITING), shard="shardId-9")


def test_a_line_moves_no_cursor_and_json_has_all_of_the_data() -> None:
    world = world_with_records()
    options = Namespace(shard=SHARD, place=None, key="b", grep="5", application="orders")
    (record,) = wanted(options, world.ports, world.settings)
    assert text_of(record, RecordForm.LINE).isprintable()
    assert text_of(record, RecordForm.LINE).endswith("  5·")
    read = json.loads(json_of(record))
    assert base64.b64decode(read["data"]) == b"5\x1b"
    assert (read["partition_key"], read["is_aggregated"]) == ("b", False)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "٢"])
def test_a_number_of_records_is_one_or_more(text: str) -> None:
    for parse in (count, skip.count):
        with pytest.raises(ArgumentTypeError, match="is not a number of records"):
            parse(text)


def test_peek_warns_that_a_lease_at_latest_starts_at_the_tip(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = world_with_records()
    peeked(world)
    assert not capsys.readouterr().err
    world.change_lease(checkpoint=LATEST)
    assert peeked(world) == [b"1", b"2", b"3", b"4", b"5\x1b"]
    assert "KCL would start at the tip" in capsys.readouterr().err
