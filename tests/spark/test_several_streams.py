"""A query of several streams: each is read as if alone, from its own place, whatever the others do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.streams.chosen_streams import FoundStreams
from sublet.errors import DataGap, OffsetMalformed, SettingsError, StreamNotFound, StreamUnavailable
from sublet.protocol.shard import Shard
from sublet.protocol.stream_key import StreamKey
from sublet.settings import StartPosition
from sublet.spark.options import UseOfLeases
from sublet.spark.plan.offsets import offset_from_json
from sublet.spark.read.connection import StreamsAccess
from sublet.spark.read.counting import BatchShare
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch
from sublet.testing.memory import MemoryStream
from sublet.testing.memory.streams import MemoryStreams

from tests.exploring import first
from tests.spark.memory_query import WatchedStream, memory_query, options
from tests.spark.several_query import SeveralQuery

SECOND = timedelta(seconds=1)
DISCOVERY = timedelta(seconds=61)


def test_rows_say_which_stream_they_are_of_though_shard_ids_repeat() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put("a", 10) + query.put("b", 20)
    query.clock.sleep(2 * SECOND)
    query.run_all()
    assert query.read == sorted(wanted)
    assert {row.shard_id for row in query.all_rows} == {"shardId-000000000000", "shardId-000000000001"}


@pytest.mark.parametrize("seed", first(4, range(20)))
def test_exactly_once_through_reshards_crashes_limits_and_streams_that_come(seed: int) -> None:
    chance, query = Random(seed), SeveralQuery("ab", stream="a,b,c*")
    wanted: list[tuple[str, bytes]] = []
    for turn in range(30):
        name = chance.choice(sorted(query.streams))
        wanted += query.put(name, chance.randrange(30))
        query.clock.sleep(timedelta(milliseconds=chance.randrange(2000)))
        if turn == 12:
            query.create("c")
        if chance.random() < 0.2:
            stream = query.streams[name].inner
            stream.split(chance.choice([s for s in stream.list_shards() if s.is_open]).shard_id)
        if chance.random() < 0.7 and query.plan(BatchShare(records=20) if chance.random() < 0.5 else BatchShare()):
            rows = query.run()
            if chance.random() < 0.3:
                query.restart()
                assert sorted(query.run()) == sorted(rows), "a range that is read again gives the same rows"
    query.clock.sleep(DISCOVERY)
    query.run_all()
    assert Counter(query.read) == Counter(wanted)
    assert not any(stream.refusals for stream in query.streams.values())


def test_a_limit_is_that_of_the_whole_batch() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put_into_each(40)
    query.run_all(BatchShare(records=12))
    assert query.read == sorted(wanted)
    assert max(map(len, query.rows)) <= 12


def test_each_stream_has_its_start_position_and_a_later_one_too() -> None:
    query = SeveralQuery("ab", stream="a,b@LATEST,c*@TRIM_HORIZON", startPosition="TRIM_HORIZON")
    wanted = query.put("a", 5)
    query.put("b", 5)
    query.clock.sleep(2 * SECOND)
    query.run_all()
    query.create("c")
    wanted += query.put("b", 5)[:] + query.put("c", 5)
    query.clock.sleep(DISCOVERY)
    query.run_all()
    assert query.read == sorted(wanted)


def test_a_stream_that_leaves_the_option_waits_and_is_read_on_from_there() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put_into_each(5)
    query.run_all()
    wanted += query.put("a", 5) + (missed := query.put("b", 5))
    query.clock.sleep(2 * SECOND)
    query.restart(stream="a@TRIM_HORIZON")
    query.run_all()
    assert query.read == sorted(set(wanted) - set(missed))
    assert any("Its positions wait" in text for text in query.memory_log.messages("warning"))
    query.restart(stream="b,a")
    query.run_all()
    assert query.read == sorted(wanted)


def test_logged_batch_is_repeated_whole_after_a_stream_left_the_option() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put_into_each(5)
    assert query.plan()
    query.restart(stream="a@LATEST")
    query.run()
    assert query.read == sorted(wanted)


def test_a_stream_that_was_deleted_and_created_again_is_another() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put_into_each(5)
    query.run_all()
    before = query.key("b")
    query.delete("b")
    query.create("b", shards=1)
    wanted += query.put("a", 5) + query.put("b", 3)
    query.clock.sleep(DISCOVERY)
    query.run_all()
    assert Counter(query.read) == Counter(wanted)
    last = query.offset(len(query.log) - 1)
    assert last.streams.keys() == {query.key("a"), before, query.key("b")}, "what was read of the old one stays known"


def test_a_stream_that_is_gone_does_not_stop_the_others() -> None:
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put_into_each(5)
    query.run_all()
    query.delete("b")
    wanted += query.put("a", 5)
    query.clock.sleep(20 * SECOND)
    query.run_all()
    assert query.read == sorted(wanted)
    assert "a stream is not there: left out until the next look" in query.memory_log.messages("warning")


def test_a_stream_that_is_being_created_is_left_out_until_it_is_active() -> None:
    """Kinesis describes it, and refuses to list its shards."""
    query = SeveralQuery("ab", stream="a,b")
    wanted = query.put("a", 5)
    listed = query.streams["b"].list_shards

    def refuse(at: StartPosition | None = None) -> tuple[Shard, ...]:
        raise StreamNotFound("stream b is being created or deleted; try again when it is active")

    query.streams["b"].list_shards = refuse  # type: ignore[method-assign]
    query.clock.sleep(2 * SECOND)
    query.run_all()
    assert query.read == sorted(wanted)
    query.streams["b"].list_shards = listed  # type: ignore[method-assign]
    wanted += query.put("b", 5)
    query.clock.sleep(DISCOVERY)
    query.run_all()
    assert query.read == sorted(wanted)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_with_records_of_a_stream_that_is_gone_fails_unless_loss_is_accepted(fails: str) -> None:
    query = SeveralQuery("ab", stream="a,b", failOnDataLoss=fails)
    wanted = query.put("a", 5)
    query.put("b", 5)
    query.clock.sleep(2 * SECOND)
    assert query.plan()
    query.delete("b")
    query.restart()
    if fails == "true":
        with pytest.raises(DataGap, match="stream b: it is gone"):
            query.run()
    else:
        query.run()
        assert query.read == sorted(wanted)
        assert query.memory_log.messages("warning").count("data gap") == 1


def test_the_checkpoint_of_one_stream_is_continued_by_several() -> None:
    alone, query = memory_query(2), SeveralQuery("b", stream="orders,b")
    alone.stream.inner.put_all((str(n), b"%d" % n) for n in range(10))
    alone.clock.sleep(2 * SECOND)
    assert len(alone.run_all()) == 10
    query.streams["orders"], alone.stream.inner._clock = alone.stream, query.clock
    query.log, query.rows = list(alone.log), list(alone.rows)
    query.clock.sleep(alone.clock.now() - query.clock.now() + 60 * SECOND)
    wanted = query.put("b", 5)
    alone.stream.inner.put_all((str(n), b"%d" % n) for n in range(10, 15))
    wanted += [("orders", b"%d" % n) for n in range(15)]
    query.clock.sleep(2 * SECOND)
    query.run_all()
    assert query.read == sorted(wanted)


def test_query_of_one_stream_refuses_a_checkpoint_of_several() -> None:
    query, alone = SeveralQuery("ab", stream="a,b"), memory_query(2)
    query.put("a", 5)
    query.clock.sleep(2 * SECOND)
    query.run_all()
    with pytest.raises(OffsetMalformed, match="is one of several streams"):
        alone.driver.latest_offset(offset_from_json(json.loads(query.log[-1])))


def test_available_now_reads_the_records_and_streams_present_at_the_start() -> None:
    query = SeveralQuery("ab", stream="*")
    wanted = query.put_into_each(30)
    query.driver.set_targets(query.offset(-1))
    query.put("a", 10)
    query.create("c")
    query.put("c", 10)
    query.clock.sleep(DISCOVERY)
    query.run_all(BatchShare(records=20))
    assert query.read == sorted(wanted)


def test_lag_names_stream_and_shard() -> None:
    query = SeveralQuery("ab", stream="a,b")
    query.put("a", 5)
    query.clock.sleep(2 * SECOND)
    query.run_all()
    query.plan()
    named = {str(query.key(name)) + f":shardId-{n:012}" for name in "ab" for n in range(2)}
    assert query.driver.lag.keys() == named


def test_streams_of_the_same_name_are_refused() -> None:
    query = SeveralQuery("a", stream="a,123456789012:a:1700000000")
    with pytest.raises(SettingsError, match="streams of different names"):
        query.plan()


def test_a_pattern_that_finds_nothing_waits() -> None:
    query = SeveralQuery("", stream="a*")
    assert query.run_all() == []
    assert "the option stream names no existing stream" in query.memory_log.messages("warning")
    query.create("a")
    wanted = query.put("a", 5)
    query.clock.sleep(DISCOVERY)
    query.run_all()
    assert query.read == sorted(wanted)


def test_a_batch_read_of_several_between_checkpoints_of_one() -> None:
    query = SeveralQuery("ab", stream="a,b")
    query.put("a", 10)
    wanted = query.put("b", 10)
    query.clock.sleep(2 * SECOND)
    key: StreamKey = query.key("a")
    ended = json.dumps({f"{key}:shardId-{n:012}": "SHARD_END" for n in range(2)})
    opts = options(UseOfLeases.BATCH, stream="a,b", startCheckpoints=ended)
    assert opts.streams is not None
    streams = MemoryStreams(opts.streams, query.streams)
    access = StreamsAccess(streams, query._task_access, query.clock, query.clock.sleep, query.memory_log)
    tasks = plan_batch(access, opts, ReadScope())
    assert {task.stream for task in tasks} == {"b"}
    assert len(wanted) == 10
    assert plan_batch(access, opts, ReadScope(streams=frozenset("a"))) == []


def test_query_waits_for_the_first_listing_of_streams_alone() -> None:
    query = SeveralQuery("ab", stream="a*,b")
    query.put("a", 5)
    fails, find = [2], query.found.find

    def failing(known: Collection[StreamKey] = ()) -> FoundStreams:
        if fails[0]:
            fails[0] -= 1
            raise StreamUnavailable("throttled")
        return find(known)

    query.found.find = failing  # type: ignore[method-assign]
    assert len(query.run_all()) == 5
    wanted = query.put("b", 5)
    query.clock.sleep(DISCOVERY)
    fails[0], before = 1, query.clock.now()
    assert query.plan()
    assert query.clock.now() - before < 10 * SECOND
    assert {row.data for row in query.run()} == {data for _, data in wanted}
    assert "could not search for streams" in query.memory_log.messages("warning")


def test_a_hundred_streams_cost_a_poll_each() -> None:
    """A plan with nothing to read: no listing, no description, and no look which streams there are."""
    query = SeveralQuery("", stream="*")
    for number in range(100):
        query.streams[f"s{number}"] = WatchedStream(MemoryStream(1, clock=query.clock, name=f"s{number}"), query.clock)
    query.put("s7", 5)
    query.run_all()
    assert query.read == [("s7", b"s7-%d" % n) for n in range(5)]
    query.plan()
    for stream in query.streams.values():
        stream.calls.clear()
    assert not query.plan()
    assert sum((stream.calls for stream in query.streams.values()), Counter()) == {"poll": 100}
