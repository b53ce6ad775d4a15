"""How far a table holds the stream, and what of a batch is beyond that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import (
    Ended,
    Offset,
    Position,
    ReadTo,
    ShardOffset,
    StreamOffset,
    Unread,
    from_millis,
    to_millis,
)
from sublet.spark.plan.table_positions import (
    KEPT_MILLIS,
    BatchExtent,
    Reached,
    ShardExtent,
    TablePositions,
    bounded,
    filled,
    held_by_all,
    refuse_gap,
)

CREATED = datetime(2026, 1, 31, tzinfo=UTC)
NOW = 1795227170308


def extent(arrived: int = NOW, **shards: tuple[int, int]) -> BatchExtent:
    """The rows of a batch, from one sequence number to another by shard."""
    return BatchExtent(
        {
            f"orders/{name}": ShardExtent(Checkpoint(str(first)), Checkpoint(str(last)), arrived)
            for name, (first, last) in shards.items()
        }
    )


def offset(created: datetime = CREATED, **shards: Position) -> Offset:
    identity = StreamIdentity("arn:aws:kinesis:us-east-1:123456789012:stream/orders", created)
    return Offset({None: StreamOffset("orders", identity, {name: ShardOffset(at) for name, at in shards.items()})})


def held(**shards: int) -> TablePositions:
    return TablePositions({f"orders/{name}": Reached(Checkpoint(str(at)), NOW) for name, at in shards.items()})


def at(positions: TablePositions) -> dict[str, str]:
    return {name.partition("/")[2]: str(shard.checkpoint) for name, shard in positions.shards.items()}


def test_batch_moves_the_positions_of_its_shards_and_never_back() -> None:
    moved = held(a=5, b=90).advanced(extent(a=(6, 10), b=(70, 80), c=(1, 1)))
    assert at(moved) == {"a": "10", "b": "90", "c": "1"}
    assert moved.advanced(extent(a=(6, 10))) is moved


def test_cut_names_the_shards_of_which_rows_are_held() -> None:
    assert held(a=5, b=10, c=99).cut(extent(a=(6, 10), b=(10, 12), c=(7, 8), d=(1, 2))) == {
        "orders/b": "10",
        "orders/c": "99",
    }


def test_end_of_a_batch_counts_also_without_rows() -> None:
    """The last record of a range may be one that is dropped, and then the next batch begins after it."""
    end = offset(a=ReadTo("9"), b=ReadTo("7", last_sub_sequence_number=4), c=Unread(), d=Ended())
    moved = held(a=5).advanced(bounded(extent(a=(6, 8)), None, end))
    assert at(moved) == {"a": "9", "b": "7:4", "d": "0"}


@pytest.mark.parametrize(
    ("begin", "shard"),
    [
        ({"a": ReadTo("6")}, "orders/a"),
        ({"a": ReadTo("5", sub_sequence_number=2)}, "orders/a"),
        ({"a": ReadTo("5"), "b": ReadTo("1")}, "orders/b"),
        ({"a": ReadTo("5", last_sub_sequence_number=3)}, None),
        ({"a": ReadTo("4")}, None),
        ({"a": Ended(), "b": Unread()}, None),
    ],
)
def test_batch_that_begins_beyond_the_table_is_a_gap(begin: dict[str, Position], shard: str | None) -> None:
    batch = bounded(extent(a=(8, 9)), offset(CREATED, **begin), offset(a=ReadTo("9")))
    assert held(a=5).gap(batch) == shard
    assert TablePositions().gap(batch) is None, "a new table begins anywhere"


@pytest.mark.parametrize(
    ("rows", "application", "shards"),
    [
        ({}, "orders-audit", ["orders/a"]),
        ({"a": (10, 12)}, "orders-audit", ["orders/a"]),
        ({"a": (6, 12)}, "orders-audit", []),
        ({}, None, []),
    ],
)
def test_records_that_other_workers_handled_are_passed_over(
    rows: dict[str, tuple[int, int]], application: str | None, shards: list[str]
) -> None:
    """`raw` has them, of a batch that was cut off after it; the batch comes again without them, or after them."""
    end = offset(a=ReadTo("12"), b=ReadTo("3"))
    end = Offset({None: replace(end.streams[None], application=application)})
    batch = bounded(extent(NOW, **rows), offset(a=ReadTo("5"), b=ReadTo("3")), end)
    assert held(a=5, b=3).passed_over(held(a=9, b=3), batch) == shards
    assert held(b=3).passed_over(held(a=9, b=3), batch) == shards, "a table that does not know the shard"
    assert held(a=9, b=3).passed_over(held(a=9, b=3), batch) == []


@pytest.mark.parametrize(
    ("parsed", "rejected", "shards"),
    [
        (held(a=9), held(a=4), ["orders/a"]),
        (held(a=9), TablePositions(), ["orders/a"]),
        (held(a=7), held(a=4), ["orders/a"]),
        (held(a=9), held(a=9), []),
        (held(a=4), held(a=2), []),
        (held(a=4), held(a=9), []),
    ],
)
def test_records_that_one_table_took_by_another_schema_are_told(
    parsed: TablePositions, rejected: TablePositions, shards: list[str]
) -> None:
    """A batch from 5 to 9 was cut off after `parsed`, and comes again."""
    batch = replace(extent(a=(5, 9), b=(1, 2)), judged_by="new")
    before = replace(parsed, judged_by="old")
    assert before.judged_otherwise(rejected, batch) == shards
    assert replace(parsed, judged_by="new").judged_otherwise(rejected, batch) == []
    assert parsed.judged_otherwise(rejected, batch) == [], "of an earlier version, which kept no rule"
    assert TablePositions.from_value(before.to_value()) == before
    assert before.advanced(batch).judged_by == "new"


def test_end_of_a_shard_that_the_table_does_not_hold_is_a_gap() -> None:
    """The batch between was skipped, and the checkpoint no longer says which records it had."""
    table = held(a=4).advanced(bounded(extent(a=(5, 5)), None, offset(a=ReadTo("5"))))
    skipped, then = offset(a=Ended()), offset(a=Ended(), b=ReadTo("9"))
    assert table.gap(bounded(extent(b=(8, 9)), skipped, then)) == "orders/a"
    with pytest.raises(SettingsError, match=r"holds orders/a up to 5, but batch 3 begins after its end"):
        refuse_gap("raw", table, bounded(extent(b=(8, 9)), skipped, then), "lake/_checkpoint", 3)
    ended = table.advanced(bounded(extent(), offset(a=ReadTo("5")), skipped))
    assert ended is not table, "an end without rows is written too"
    assert TablePositions.from_value(ended.to_value()).gap(bounded(extent(b=(8, 9)), skipped, then)) is None
    assert ended.advanced(bounded(extent(), offset(a=ReadTo("5")), skipped)) is ended
    assert held(a=5).gap(bounded(extent(b=(8, 9)), skipped, then)) is None, "of an earlier version"


def test_end_of_a_shard_without_records_is_known_after_the_checkpoint_was_emptied() -> None:
    """Else a checkpoint that is put back from before, which names the shard, would be refused as ahead."""
    before = offset(a=ReadTo("5"), empty=Ended())
    table = held(a=1).advanced(bounded(extent(a=(2, 5)), None, before))
    emptied = table.advanced(bounded(extent(a=(6, 7), b=(1, 1)), None, offset(a=ReadTo("7"), b=ReadTo("1"))))
    again = TablePositions.from_value(emptied.to_value())
    assert again.gap(bounded(extent(a=(6, 9)), before, offset(a=ReadTo("9"), empty=Ended()))) is None
    assert held_by_all([again]) == {"orders/a": "7", "orders/b": "1", "orders/empty": "0"}


@pytest.mark.parametrize("shard", [ReadTo("70"), Ended()])
def test_table_that_begins_with_the_end_of_a_shard_takes_its_batch_again(shard: Position) -> None:
    """The run was killed between the tables, or the checkpoint was set back: to before the end of the shard, or to
    where the end is in the batch before, which this one drops because Kinesis no longer lists the shard."""
    ended = offset(a=ReadTo("9"), s=Ended()) if isinstance(shard, ReadTo) else offset(a=ReadTo("9"))
    batch = bounded(extent(a=(6, 9)), offset(a=ReadTo("5"), s=shard), ended)
    table = TablePositions().advanced(batch)
    assert table.ended == frozenset({"orders/s"})
    assert TablePositions.from_value(table.to_value()).gap(batch) is None
    assert table.gap(bounded(extent(a=(3, 9)), offset(a=ReadTo("2"), s=ReadTo("30")), ended)) is None
    assert table.gap(bounded(extent(a=(11, 12)), offset(a=ReadTo("10"), s=shard), ended)) == "orders/a"


def test_table_that_began_after_a_shard_and_reads_it_again_holds_no_more_of_it() -> None:
    table = TablePositions().advanced(
        bounded(extent(a=(6, 9)), offset(s=ReadTo("90")), offset(a=ReadTo("9"), s=Ended()))
    )
    again = table.advanced(bounded(extent(s=(1, 40)), None, offset(s=ReadTo("40"))))
    assert at(again) == {"a": "9", "s": "40"}
    assert again.gap(bounded(extent(s=(91, 95)), offset(s=ReadTo("90")), offset(s=ReadTo("95")))) == "orders/s"
    assert again.gap(bounded(extent(a=(10, 12)), offset(s=Ended()), offset(a=ReadTo("12")))) == "orders/s"
    to_its_end = again.advanced(bounded(extent(s=(41, 99)), offset(s=ReadTo("40")), offset(s=Ended())))
    assert to_its_end.gap(bounded(extent(a=(10, 12)), offset(s=Ended()), offset(a=ReadTo("12")))) is None


def test_first_batch_that_has_only_ended_shards_is_written() -> None:
    """Else the batch after it would be ahead of the table, which knows nothing of them."""
    ended = bounded(extent(), None, offset(s=Ended()))
    table = TablePositions().advanced(ended)
    assert at(table) == {"s": "0"}
    assert table.advanced(ended) is table
    assert table.gap(bounded(extent(a=(1, 2)), offset(s=Ended()), offset(a=ReadTo("2"), s=Ended()))) is None
    nothing = TablePositions()
    assert nothing.advanced(bounded(extent(), None, offset(a=Unread()))) is nothing
    assert nothing.advanced(extent()) is nothing


def test_ended_shards_of_a_stream_are_not_those_of_the_one_that_is_created_after_it() -> None:
    table = TablePositions().advanced(bounded(extent(), None, offset(a=Ended(), b=ReadTo("9"))))
    later = CREATED + timedelta(days=1)
    again = table.advanced(bounded(extent(a=(1, 2)), None, offset(later, a=ReadTo("2"))))
    assert (at(again), again.ended) == ({"a": "2"}, frozenset())
    skipped = bounded(extent(c=(1, 2)), offset(later, a=Ended()), offset(later, a=Ended(), c=ReadTo("2")))
    assert again.gap(skipped) == "orders/a"


def test_shard_that_ended_without_records_is_passed_over_by_none() -> None:
    raw = held(a=1).advanced(bounded(extent(a=(2, 5)), None, offset(a=ReadTo("5"), empty=Ended())))
    repeated = replace(extent(a=(2, 5)), ends={"orders/empty": Checkpoint("9"), "orders/a": Checkpoint("5")})
    assert held(a=1).passed_over(raw, replace(repeated, is_shared=True)) == []


@pytest.mark.parametrize(
    ("shard", "start", "is_gap"),
    [
        ("a", Unread(from_millis(NOW + 1)), True),
        ("b", Unread(from_millis(NOW + 1)), True),
        ("a", ReadTo("6"), True),
        ("a", Unread(from_millis(NOW)), False),
        ("b", Unread(from_millis(NOW)), False),
        ("a", Unread(), False),
        ("a", ReadTo("5", last_sub_sequence_number=3), False),
        ("b", ReadTo("6"), False),
    ],
)
def test_emptied_checkpoint_that_starts_beyond_the_table_is_a_gap(
    shard: str, start: Unread | ReadTo, is_gap: bool
) -> None:
    part = replace(offset(a=ReadTo("9")).streams[None], shards={shard: ShardOffset(ReadTo("9"), began=start)})
    assert (held(a=5).gap(bounded(extent(a=(8, 9)), None, Offset({None: part}))) is not None) == is_gap
    shared = Offset({None: replace(part, application="orders")})
    assert held(a=5).gap(bounded(extent(a=(8, 9)), None, shared)) is None, "others may have handled what is before"
    assert TablePositions().gap(bounded(extent(a=(8, 9)), None, Offset({None: part}))) is None, "a new table"


def test_batch_that_brought_a_stream_is_repeated_though_its_shard_had_ended() -> None:
    """The end is dated by the batch's records, which may be those of an older stream alone."""
    identity = StreamIdentity("arn:aws:kinesis:us-east-1:123456789012:stream/returns", CREATED)
    later = Unread(from_millis(NOW + 1000))
    part = StreamOffset("returns", identity, {"old": ShardOffset(Ended()), "new": ShardOffset(Unread(), began=later)})
    orders = offset(a=ReadTo("9"))
    both = Offset({StreamKey("1", "orders", 1): orders.streams[None], StreamKey("1", "returns", 1): part})
    batch = bounded(extent(a=(6, 9)), Offset({StreamKey("1", "orders", 1): orders.streams[None]}), both)
    assert held(a=5).advanced(batch).gap(batch) is None


@pytest.mark.parametrize(
    ("arrived", "ended", "start", "shard"),
    [
        (NOW - 1, frozenset(), Unread(from_millis(NOW)), "orders/s"),
        (NOW, frozenset(), Unread(from_millis(NOW)), None),
        (NOW - 1, frozenset({"orders/s"}), Unread(from_millis(NOW)), None),
        (NOW - 1, None, Unread(from_millis(NOW)), None),
        (NOW - 1, frozenset(), Unread(), None),
        (NOW - 1, frozenset(), ReadTo("5"), None),
    ],
)
def test_shard_that_closed_unread_before_the_start_of_an_emptied_checkpoint_is_a_gap(
    arrived: int, ended: frozenset[str] | None, start: Unread | ReadTo, shard: str | None
) -> None:
    """Its child has not begun, so that nothing else of it tells; another branch is held beyond the start."""
    table = replace(held(a=5), ended=ended)
    table = replace(table, shards={**table.shards, "orders/s": Reached(Checkpoint("5"), arrived)})
    first = {"a": ShardOffset(ReadTo("9"), began=start), "s": ShardOffset(Ended())}
    batch = bounded(extent(a=(6, 9)), None, Offset({None: replace(offset().streams[None], shards=first)}))
    assert table.gap(batch) == shard
    if shard is not None:
        with pytest.raises(SettingsError, match=r"holds orders/s up to 5, but batch 0 begins at .*TRIM_HORIZON"):
            refuse_gap("raw", table, batch, "lake/_checkpoint", 0)


def test_recreated_stream_beside_another_is_no_gap() -> None:
    """The old stream's positions stay in the checkpoint, under the same name."""
    [old], [new], [other] = (
        [StreamOffset(name, StreamIdentity(f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}", at), shards)]
        for name, at, shards in (
            ("orders", CREATED, {"a": ShardOffset(ReadTo("90"))}),
            ("orders", CREATED + timedelta(days=1), {"a": ShardOffset(ReadTo("2"), began=Unread())}),
            ("audit", CREATED, {"a": ShardOffset(ReadTo("7"))}),
        )
    )
    keys = [StreamKey.of(part.identity) for part in (old, new, other)]
    before = Offset({keys[0]: old, keys[2]: other})
    table = TablePositions().advanced(bounded(extent(), None, before))
    batch = bounded(extent(a=(1, 2)), before, Offset({keys[0]: old, keys[1]: new, keys[2]: other}))
    assert table.gap(batch) is None
    assert {name: str(at.checkpoint) for name, at in table.advanced(batch).shards.items()} == {
        "orders/a": "2",
        "audit/a": "7",
    }


def test_nothing_is_a_gap_while_the_checkpoint_cannot_be_read() -> None:
    assert held(a=5).gap(extent(a=(8, 9))) is None


def test_refusal_of_a_gap_names_the_table_and_both_positions() -> None:
    batch = bounded(extent(a=(8, 9)), offset(a=ReadTo("7")), offset(a=ReadTo("9")))
    with pytest.raises(
        SettingsError, match=r"ahead of table raw, which holds orders/a up to 5, but batch 3 .* after 7"
    ):
        refuse_gap("raw", held(a=5), batch, "lake/_checkpoint", 3)
    refuse_gap("raw", held(a=7), batch, "lake/_checkpoint", 3)


def test_recreated_stream_is_another_although_its_shards_have_the_same_names() -> None:
    before = held(a=90).advanced(bounded(extent(a=(91, 91)), None, offset(a=ReadTo("91"))))
    again = bounded(extent(a=(1, 2)), None, offset(CREATED + timedelta(days=1), a=ReadTo("2")))
    assert before.cut(again) == {}
    after = before.advanced(again)
    assert at(after) == {"a": "2"}
    assert after.created == {"orders": to_millis(CREATED + timedelta(days=1))}


def test_checkpoint_from_before_a_stream_was_recreated_moves_nothing_of_the_new_one() -> None:
    """The earlier stream is gone, so that nothing of it can come, and the batch goes on with the other streams."""

    def of(created: datetime, name: str, /, **shards: Position) -> StreamOffset:
        identity = StreamIdentity(f"arn:aws:kinesis:us-east-1:123456789012:stream/{name}", created)
        return StreamOffset(name, identity, {each: ShardOffset(at) for each, at in shards.items()})

    recreated = CREATED + timedelta(days=1)
    keys = [StreamKey("123456789012", name, 1) for name in ("orders", "returns")]

    def both(orders: StreamOffset, returns: int) -> Offset:
        return Offset(dict(zip(keys, (orders, of(CREATED, "returns", r=ReadTo(str(returns)))), strict=True)))

    later = of(recreated, "orders", a=Ended(), b=ReadTo("900"))
    table = TablePositions().advanced(bounded(BatchExtent(), None, both(later, 5)))
    before = both(of(CREATED, "orders", a=Ended(), b=Ended(), c=ReadTo("10")), 5)
    after = both(of(CREATED, "orders", a=Ended(), b=Ended(), c=ReadTo("20"), d=Unread()), 7)
    for start in (before, Offset({keys[1]: before.streams[keys[1]]})):
        batch = bounded(extent(), start, after)
        assert table.gap(batch) is None
        moved = table.advanced(batch)
        assert {name: str(held.checkpoint) for name, held in moved.shards.items()} == {
            "orders/a": "0",
            "orders/b": "900",
            "returns/r": "7",
        }
        assert moved.ended == table.ended
        assert moved.created == table.created


def test_shard_is_forgotten_when_no_retention_reaches_back_to_it() -> None:
    old = held(a=5, b=6)
    end = offset(a=ReadTo("5"), c=ReadTo("9"))
    soon = old.advanced(bounded(extent(NOW + KEPT_MILLIS - 1, c=(1, 9)), None, end))
    assert at(soon) == {"a": "5", "b": "6", "c": "9"}
    late = old.advanced(bounded(extent(NOW + KEPT_MILLIS, c=(1, 9)), None, end))
    assert at(late) == {"a": "5", "c": "9"}, "an open shard stays, however idle"


def test_stream_is_forgotten_with_its_last_shard() -> None:
    shards = {"orders/a": Reached(Checkpoint("5"), NOW), "gone/a": Reached(Checkpoint("5"), NOW)}
    old = TablePositions(shards, {"orders": to_millis(CREATED), "gone": 1})
    for passed, streams in ((KEPT_MILLIS - 1, {"orders", "gone"}), (KEPT_MILLIS, {"orders"})):
        after = old.advanced(bounded(extent(NOW + passed, a=(6, 9)), None, offset(a=ReadTo("9"))))
        assert after.created.keys() == streams


def test_new_table_is_filled_with_the_positions_of_raw_up_to_the_table_that_lags() -> None:
    end = offset(a=ReadTo("9"), s=Ended(), empty=Ended())
    raw = held(s=3, w=2).advanced(bounded(extent(a=(6, 9), s=(4, 5)), None, end))
    assert filled([raw, TablePositions(), TablePositions()]) == [raw, raw, raw]
    lags = replace(held(a=7, s=4), ended=frozenset())
    _, new, other = filled([raw, TablePositions(), lags])
    assert at(new) == {"a": "7", "s": "4", "w": "2", "empty": "0"}
    assert (new.ended, new.created) == (frozenset({"orders/empty"}), raw.created)
    assert at(other) == {"a": "7", "s": "4", "empty": "0"}, "the pipeline has begun to write it"
    assert filled([raw, new, other]) == [raw, new, other]


def test_table_that_began_after_a_shard_is_filled_with_it() -> None:
    raw = held(s=5).advanced(bounded(extent(a=(6, 9)), None, offset(a=ReadTo("9"), s=Ended(), b=ReadTo("1"))))
    began = TablePositions().advanced(bounded(extent(a=(8, 9)), None, offset(a=ReadTo("9"), s=Ended())))
    assert at(began) == {"a": "9", "s": "0"}
    _, after = filled([raw, began])
    assert (at(after), after.ended) == ({"a": "9", "s": "5"}, frozenset({"orders/s"})), "b is left to the pipeline"
    assert held_by_all([raw, after]) == {"orders/a": "9", "orders/b": "0", "orders/s": "5"}
    never = replace(began, shards={"orders/a": Reached(Checkpoint("9"))}, ended=None)
    assert filled([raw, never]) == [raw, never], "of an earlier version, which does not know what has ended"
    later = replace(began, created={"orders": to_millis(CREATED) + 1})
    assert filled([raw, later]) == [raw, later], "another stream of that name"


def test_positions_round_trip() -> None:
    before = held(a=90).advanced(bounded(extent(a=(91, 91)), None, offset(a=ReadTo("91", last_sub_sequence_number=3))))
    assert TablePositions.from_value(before.to_value()) == before


def test_all_tables_hold_a_shard_as_far_as_the_one_that_lags() -> None:
    raw = TablePositions({"s/a": Reached(Checkpoint("50", 3)), "s/b": Reached(Checkpoint("9"))})
    parsed = TablePositions({"s/a": Reached(Checkpoint("50", 1))})
    assert held_by_all([raw, parsed]) == {"s/a": "50:1", "s/b": "0"}
