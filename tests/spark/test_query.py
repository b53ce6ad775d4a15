"""Exactly once, without Spark: the source's driver and tasks over a stream in memory that follows Kinesis' rules."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from sublet.errors import DataGap, SettingsError, StreamRecreated, StreamUnavailable
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.spark.options import UseOfLeases
from sublet.spark.plan.offsets import Unread
from sublet.spark.read.counting import BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch
from sublet.spark.source.stream_planner import ASK_AGAIN
from sublet.testing.memory import MemoryStream

from tests.exploring import first
from tests.spark.memory_query import MemoryQuery, Row, memory_query, only, options, rows_of

SECOND = timedelta(seconds=1)
LAST_HASH_KEY = str(2**128 - 1)


def put(query: MemoryQuery, count: int, first: int = 0) -> list[bytes]:
    data = [b"%d" % number for number in range(first, first + count)]
    query.stream.inner.put_all((each.decode(), each) for each in data)
    return data


class World:
    """Producer and operator with one seed: records and aggregates, splits and merges, crashes of the query."""

    def __init__(self, seed: int) -> None:
        print(f"seed {seed}")
        self.chance = Random(seed)
        self.query = memory_query(2, maxRecordsPerTrigger="1000")
        self.produced: list[bytes] = []

    def produce(self) -> None:
        stream, chance = self.query.stream.inner, self.chance
        for _ in range(chance.randrange(40)):
            key = f"key-{chance.randrange(1000)}"
            data = [b"%d" % (len(self.produced) + n) for n in range(chance.choice((1, 1, 5)))]
            stream.put(key, data[0] if len(data) == 1 else aggregate([(key, None, each) for each in data]))
            self.produced += data
            if chance.random() < 0.2:
                self.query.clock.sleep(timedelta(milliseconds=chance.randrange(800)))

    def reshard(self) -> None:
        stream, chance = self.query.stream.inner, self.chance
        still_open = sorted((s for s in stream.list_shards() if s.is_open), key=lambda s: s.hash_key_range)
        if len(still_open) > 1 and chance.random() < 0.5:
            first = chance.randrange(len(still_open) - 1)
            stream.merge(still_open[first].shard_id, still_open[first + 1].shard_id)
        else:
            stream.split(chance.choice(still_open).shard_id)

    def turn(self) -> None:
        chance, query = self.chance, self.query
        self.produce()
        if chance.random() < 0.15:
            self.reshard()
        if chance.random() < 0.7 and query.plan(BatchShare(records=30) if chance.random() < 0.5 else BatchShare()):
            if chance.random() < 0.3:  # planned, and then killed
                query.restart()
            rows = query.run()
            if chance.random() < 0.3:  # run, and killed before it was committed
                query.restart()
                assert query.run() == rows, "a range that is read again gives the same rows"


@pytest.mark.parametrize("seed", first(5, range(25)))
def test_exactly_once_through_reshards_and_crashes(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        world.turn()
    world.query.clock.sleep(20 * SECOND)
    rows = world.query.run_all()
    times = Counter(row.data for row in rows)
    assert set(times) == set(world.produced)
    assert set(times.values()) == {1}
    assert_in_order(world.query)
    assert world.query.stream.refusals == [], "five calls and 2 MB a second were exceeded"


def assert_in_order(query: MemoryQuery) -> None:
    """Within a shard by sequence number; a child's first batch after its parents' last."""
    batches: dict[str, list[int]] = {}
    position: dict[str, tuple[int, int]] = {}
    for number, rows in enumerate(query.rows):
        for row in rows:
            at = (int(row.sequence_number), row.sub_sequence_number)
            assert at > position.get(row.shard_id, (-1, -1))
            position[row.shard_id] = at
            batches.setdefault(row.shard_id, []).append(number)
    for shard in query.stream.inner.list_shards():
        for parent in shard.parent_shard_ids & batches.keys():
            assert shard.shard_id not in batches or batches[parent][-1] < batches[shard.shard_id][0]


def test_empty_stream_gives_one_empty_batch() -> None:
    query = memory_query(3)
    assert query.run_all() == []
    assert len(query.log) == 1
    assert not query.plan()


def test_idle_shards_cost_one_poll_each() -> None:
    query = memory_query(2)
    put(query, 20)
    query.run_all()
    query.plan()
    query.stream.calls.clear()
    assert not query.plan()
    assert query.stream.calls["poll"] == 2
    assert query.stream.calls["open"] == 0


def test_latest_stays_pinned_by_the_first_plan_when_batch_0_fails() -> None:
    query = memory_query(2, startPosition="LATEST")
    put(query, 10)
    query.clock.sleep(2 * SECOND)
    query.plan()
    query.restart()  # batch 0 failed; its successor must begin where it did
    query.clock.sleep(2 * SECOND)
    wanted = put(query, 10, first=10)
    query.clock.sleep(5 * SECOND)
    query.run(0)
    query.restart()
    assert sorted(row.data for row in query.run_all()) == sorted(wanted)


def test_a_batch_0_with_records_gives_the_same_rows_again() -> None:
    query = memory_query(2)
    put(query, 50)
    query.plan()
    rows = query.run(0)
    assert len(rows) == 50
    put(query, 50, first=50)
    query.restart()
    assert query.run(0) == rows


def test_start_at_timestamp_leaves_out_earlier_records_through_a_reshard() -> None:
    query = memory_query(1)
    put(query, 10)
    query.stream.inner.split("shardId-000000000000")
    query.clock.sleep(60 * SECOND)
    moment = query.clock.now().isoformat()
    late = memory_query()
    late.stream, late.clock = query.stream, query.clock
    late.options = options(startPosition=f"AT_TIMESTAMP:{moment}")
    late.restart()
    wanted = put(query, 10, first=10)
    query.stream.inner.split("shardId-000000000001")
    wanted += put(query, 10, first=20)
    query.clock.sleep(5 * SECOND)
    assert sorted(row.data for row in late.run_all()) == sorted(wanted)


@pytest.mark.parametrize("limit", [BatchShare(records=7), BatchShare(bytes=20)])
def test_limits_by_records_and_bytes_hold_for_every_batch_and_lose_nothing(limit: BatchShare) -> None:
    query = memory_query(2)
    wanted = put(query, 100)
    assert sorted(row.data for row in query.run_all(limit)) == sorted(wanted)
    for rows in query.rows:
        assert limit.records is None or len(rows) <= limit.records
        assert limit.bytes is None or sum(len(row.data) for row in rows) <= limit.bytes
    assert len(query.rows) >= 9


def test_an_aggregate_is_never_cut() -> None:
    query = memory_query(1)
    for _ in range(3):
        query.stream.inner.put("k", aggregate([("k", None, b"x")] * 10))
    query.run_all(BatchShare(records=7))
    assert [len(rows) for rows in query.rows] == [10, 10, 10]


def test_limit_by_span_reads_so_much_arrival_time_in_a_batch() -> None:
    query = memory_query(1)
    for number in range(10):
        put(query, 5, first=5 * number)
        query.clock.sleep(60 * SECOND)
    query.run_all(BatchShare(span=120 * SECOND))
    assert [len(rows) for rows in query.rows[:4]] == [11, 10, 10, 10]
    assert len(query.all_rows) == 50


def test_available_now_reads_the_records_present_at_the_start() -> None:
    query = memory_query(2)
    wanted = put(query, 30)
    query.stream.inner.split("shardId-000000000000")
    wanted += put(query, 30, first=30)
    query.clock.sleep(SECOND)
    query.driver.set_targets()
    for number in range(100):
        put(query, 5, first=1000 + 5 * number)
        if number == 3:
            query.stream.inner.split("shardId-000000000001")
        if not query.plan(BatchShare(records=20) if number < 2 else BatchShare()):
            break
        query.run()
        query.clock.sleep(SECOND)
    assert sorted(row.data for row in query.all_rows) == sorted(wanted)


def test_throttled_polls_and_expired_iterators_are_waited_out() -> None:
    chance = Random(7)
    query = memory_query(2)
    query.stream.refuse = lambda _: (
        chance.choice((PollRefusal.THROTTLED, PollRefusal.ITERATOR_EXPIRED)) if chance.random() < 0.4 else None
    )
    wanted = put(query, 200)
    assert sorted(row.data for row in query.run_all(BatchShare(records=50))) == sorted(wanted)
    assert len(query.stream.refusals) > 10


def test_task_fails_when_a_shard_keeps_throttling() -> None:
    query = memory_query(1)
    put(query, 5)
    query.plan()
    query.stream.refuse = lambda _: PollRefusal.THROTTLED
    with pytest.raises(StreamUnavailable, match="refused"):
        query.run()


def test_a_task_fails_rather_than_finish_short() -> None:
    query = memory_query(1)
    put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.plan()
    query.stream.never_shows = query.run()[-1].sequence_number
    with pytest.raises(StreamUnavailable, match="fails so as not to finish short"):
        query.run()


def trimmed_in_the_middle(**given: str) -> tuple[MemoryQuery, list[bytes]]:
    """Five records read, five trimmed unread, five left."""
    query = memory_query(1, **given)
    put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.run_all()
    put(query, 5, first=5)
    query.clock.sleep(timedelta(hours=30))
    left = put(query, 5, first=10)
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    query.clock.sleep(5 * SECOND)
    query.restart()
    return query, left


def test_records_trimmed_unread_fail_the_query() -> None:
    query, _ = trimmed_in_the_middle()
    query.plan()
    with pytest.raises(DataGap, match=r"past retention.*failOnDataLoss"):
        query.run()


def test_or_are_warned_of_with_the_gap() -> None:
    query, left = trimmed_in_the_middle(failOnDataLoss="false")
    query.plan()
    assert [row.data for row in query.run()] == left
    (warning,) = [line for line in query.memory_log.lines if line.message == "data gap"]
    assert "first one left is" in str(warning.fields["what"])


def test_a_batch_whose_end_is_trimmed_before_it_is_read_fails() -> None:
    query = memory_query(1)
    put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.plan()
    query.clock.sleep(timedelta(hours=30))
    put(query, 5, first=5)
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    with pytest.raises(DataGap, match="the last of this batch"):
        query.run()


def test_a_quiet_day_loses_nothing_and_says_so_in_the_log() -> None:
    query = memory_query(1)
    put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.run_all()
    for _ in range(60):
        query.clock.sleep(timedelta(hours=1))
        query.run_all()
    assert len(query.log) == 2 + 60 // 12 - 1
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    query.restart()
    wanted = put(query, 5, first=5)
    query.clock.sleep(5 * SECOND)
    query.plan()
    assert [row.data for row in query.run()] == wanted


@pytest.mark.parametrize("fails", [True, False])
def test_a_shard_that_is_gone_unread(fails: bool) -> None:
    query = memory_query(1, failOnDataLoss=str(fails))
    query.run_all()
    put(query, 5)
    query.stream.inner.split("shardId-000000000000")
    query.clock.sleep(timedelta(hours=30))
    wanted = put(query, 5, first=5)
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    query.clock.sleep(5 * SECOND)
    query.restart()
    if fails:
        with pytest.raises(DataGap, match="is gone"):
            query.run_all()
    else:
        assert sorted(row.data for row in query.run_all()) == sorted(wanted)
        query.clock.sleep(60 * SECOND)
        query.run_all()
        assert "shardId-000000000000" not in query.offset(len(query.log) - 1).shards


def test_shard_that_only_the_listing_lacks_is_asked_for_every_few_seconds() -> None:
    """Kinesis answers five such calls a second for a shard. Once it denies the shard, the loss is told."""
    query = memory_query(2)
    query.stream.inner.put_all((f"key-{n}", b"%d" % n) for n in range(20))
    query.clock.sleep(5 * SECOND)
    query.run_all()
    kept, gone = query.stream.inner.list_shards()
    query.stream.list_shards = lambda at=None: (kept,)  # type: ignore[method-assign] # noqa: ARG005
    query.clock.sleep(timedelta(minutes=1))  # until the next listing
    since, before = query.clock.now(), query.stream.calls["has_shard"]
    for _ in range(100):
        assert not query.plan()
    passed = query.clock.now() - since
    assert passed > 2 * ASK_AGAIN
    assert 2 <= query.stream.calls["has_shard"] - before <= passed / ASK_AGAIN + 1
    query.stream.has_shard = lambda shard_id: shard_id != gone.shard_id  # type: ignore[method-assign]
    query.clock.sleep(ASK_AGAIN)
    with pytest.raises(DataGap, match=f"shard {gone.shard_id}, .* is gone"):
        query.plan()


def test_last_read_record_is_looked_up_after_a_day_and_not_repeated() -> None:
    query = memory_query(1)
    put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.run_all()
    query.clock.sleep(timedelta(hours=30))
    wanted = put(query, 5, first=5)
    query.clock.sleep(5 * SECOND)
    query.restart()
    query.plan()
    assert [row.data for row in query.run()] == wanted


def test_long_tasks_keep_within_the_shards_limits() -> None:
    """Seven pages by their count and three by their bytes, without a throttled poll."""
    query = memory_query(1)
    for backlog in ([b""] * 65_000, [bytes(2**20)] * 25):
        query.stream.inner.put_all(("k", data) for data in backlog)
        query.clock.sleep(60 * SECOND)
        query.restart()
        query.stream.inner.put_all([("k", b"new")])
        assert query.plan()
        assert len(query.run()) == len(backlog) + 1
        query.run_all()
    assert query.stream.refusals == []


def test_a_recreated_stream_is_refused() -> None:
    query = memory_query(1)
    put(query, 5)
    query.run_all()
    query.clock.sleep(60 * SECOND)
    query.stream.inner = MemoryStream(1, clock=query.clock, throttled=True, name="orders")
    query.stream.created_at = query.clock.now()
    with pytest.raises(StreamRecreated, match="new checkpointLocation"):
        query.plan()
    query.restart()
    with pytest.raises(StreamRecreated):
        query.run(0)


def test_hash_range_filter_drops_strays_that_the_kpl_sends_again() -> None:
    query = memory_query(1)
    stray = aggregate([("k", "0", b"low"), ("k", LAST_HASH_KEY, b"high")])
    low, _ = query.stream.inner.split("shardId-000000000000")
    query.stream.inner.put("k", stray, explicit_hash_key=0)
    query.stream.inner.put("k", aggregate([("k", "0", b"again")]), explicit_hash_key=0)
    query.clock.sleep(5 * SECOND)
    assert [(row.data, row.shard_id) for row in query.run_all()] == [(b"again", low)]
    assert any(line.fields.get("dropped_out_of_range") == 2 for line in query.memory_log.lines)

    query.options = options(hashRangeFilter="off")
    query.log.clear()
    query.rows.clear()
    query.restart()
    assert [row.data for row in query.run_all()] == [b"low", b"high", b"again"]


def test_200_shards_are_planned_in_a_bounded_number_of_calls() -> None:
    query = memory_query(200, False)
    for shard in query.stream.inner.list_shards():
        query.stream.inner.put("k", b"x", shard.hash_key_range.starting)
    query.clock.sleep(timedelta(milliseconds=500))
    query.plan()
    assert query.stream.calls["poll"] <= 200
    assert query.stream.calls["open"] <= 200
    assert query.stream.calls["list_shards"] <= 3
    assert len(query.run()) == 200


def test_a_shard_that_ends_where_a_limited_batch_has_read_to_is_read_to_its_end() -> None:
    query = memory_query(1)
    wanted = put(query, 10)
    query.clock.sleep(2 * SECOND)
    query.run_all(BatchShare(records=100))
    query.stream.inner.split("shardId-000000000000")
    wanted += put(query, 10, first=10)
    query.clock.sleep(20 * SECOND)
    assert sorted(row.data for row in query.run_all(BatchShare(records=100))) == sorted(wanted)


def batch_rows(query: MemoryQuery, wanted: ReadScope = ReadScope(), /, **given: str) -> list[Row]:  # noqa: B008 - frozen
    query.options = options(UseOfLeases.BATCH, **given)
    connection = query.connection(CallPace.of_task(query.clock, query.clock.sleep))
    return rows_of(connection, plan_batch(only(connection), query.options, wanted))


def test_batch_between_two_checkpoints_in_mid_aggregate() -> None:
    query = memory_query(1)
    first, second, third = (
        query.stream.inner.put("k", aggregate([("k", None, b"%d%d" % (n, m)) for m in range(4)])) for n in range(3)
    )
    shard = "shardId-000000000000"

    def between(start: str, end: str) -> list[bytes]:
        given = {"startCheckpoints": f'{{"{shard}": "{start}"}}', "endCheckpoints": f'{{"{shard}": "{end}"}}'}
        return [row.data for row in batch_rows(query, **given)]

    assert between(f"{first}:1", f"{third}:0") == [b"02", b"03", b"10", b"11", b"12", b"13", b"20"]
    assert between(f"{second}:1", f"{second}:2") == [b"12"]
    assert between(f"{second}:2", f"{second}:2") == []
    assert between("TRIM_HORIZON", f"{first}:0") == [b"00"]


@pytest.mark.parametrize("name", ["startCheckpoints", "endCheckpoints"])
def test_checkpoints_of_a_shard_that_there_is_not_are_a_gap(name: str) -> None:
    query = memory_query(1)
    put(query, 5)
    given = {name: f'{{"shardId-000000000000": "{TRIM_HORIZON}", "shardId-000000000077": "49"}}'}
    with pytest.raises(DataGap, match=r"no shard shardId-000000000077, to be read from .*49.*failOnDataLoss"):
        batch_rows(query, **given)
    assert len(batch_rows(query, **given, failOnDataLoss="false")) == (5 if name == "startCheckpoints" else 0)
    assert [line.message for line in query.memory_log.lines] == ["data gap"]
    handled = {"startCheckpoints": '{"shardId-000000000077": "SHARD_END"}'}
    assert len(batch_rows(query, **handled)) == 5


def test_batch_between_two_moments_and_from_horizon_to_tip() -> None:
    query = memory_query(2)
    moments = []
    for number in range(4):
        moments.append(query.clock.now())
        put(query, 10, first=10 * number)
        query.clock.sleep(90 * SECOND)
    start, end = (f"AT_TIMESTAMP:{moments[index].isoformat()}" for index in (1, 3))
    rows = batch_rows(query, startPosition=start, endPosition=end)
    assert sorted(int(row.data) for row in rows) == list(range(10, 30))
    assert len(batch_rows(query)) == 40
    filtered = ReadScope(frozenset({"shardId-000000000001"}), since=moments[2], until=moments[3])
    assert batch_rows(query, filtered) == [
        row for row in batch_rows(query) if row.shard_id[-1] == "1" and 20 <= int(row.data) < 30
    ]


@pytest.mark.parametrize("follow", [0, 3])
@pytest.mark.parametrize("by_filter", [True, False])
def test_end_checkpoint_that_arrived_before_the_moment_to_read_from(by_filter: bool, follow: int) -> None:
    query = memory_query(1)
    put(query, 3)
    end = query.stream.inner.put("k", b"end")
    query.clock.sleep(90 * SECOND)
    moment = query.clock.now()
    query.clock.sleep(90 * SECOND)
    put(query, follow)
    given = {"endCheckpoints": f'{{"shardId-000000000000": "{end}"}}'}
    if not by_filter:
        given["startPosition"] = f"AT_TIMESTAMP:{moment.isoformat()}"
    began = query.clock.steady()
    assert batch_rows(query, ReadScope(since=moment if by_filter else None), **given) == []
    assert query.clock.steady() - began < 5 * SECOND


@pytest.mark.parametrize("begins_after", range(6))
def test_batch_from_a_moment_to_a_checkpoint_though_arrival_times_do_not_rise(begins_after: int) -> None:
    query, chance = memory_query(1), Random(3)
    query.stream.inner = MemoryStream(
        1, clock=query.clock, name="orders", stamp=lambda now: now - chance.random() * 30 * SECOND
    )
    for number in range(6):
        put(query, 1, first=number)
        query.clock.sleep(5 * SECOND)
    every = batch_rows(query)
    moment, end = every[begins_after].arrived, every[3].sequence_number
    given = {"endCheckpoints": f'{{"shardId-000000000000": "{end}"}}'}
    assert batch_rows(query, ReadScope(since=moment), **given) == [row for row in every[:4] if row.arrived >= moment]


def test_end_checkpoint_past_retention_is_a_gap_also_with_a_moment_to_read_from() -> None:
    query = memory_query(1)
    moment = query.clock.now()
    end = query.stream.inner.put("k", b"end")
    query.clock.sleep(25 * 60 * 60 * SECOND)
    put(query, 1)
    query.stream.inner.trim(query.clock.now() - SECOND)
    with pytest.raises(DataGap, match=f"record {end}, the last of this batch, is past retention"):
        batch_rows(query, ReadScope(since=moment), endCheckpoints=f'{{"shardId-000000000000": "{end}"}}')


def test_checkpoints_read_back_as_they_are_written() -> None:
    given = options(UseOfLeases.BATCH, startCheckpoints='{"shardId-0": "49:3", "shardId-1": "SHARD_END"}')
    assert given.start_checkpoints == {"shardId-0": Checkpoint("49", 3), "shardId-1": Checkpoint("SHARD_END")}


def test_latest_is_a_moment_by_the_service_s_clock() -> None:
    """A driver whose clock is ahead would skip records until the service's clock has caught up."""
    query = memory_query(1, startPosition="LATEST")
    moment = query.clock.now() - timedelta(minutes=1)
    query.stream.service_time = lambda: moment  # type: ignore[method-assign]
    query.plan()
    assert [shard.began for shard in query.offset(0).shards.values()] == [Unread(moment)]


def test_start_position_that_is_seconds_ahead_is_waited_for() -> None:
    query = memory_query(2)
    start = query.clock.now() + 20 * SECOND
    query.options = options(startPosition=f"AT_TIMESTAMP:{start.isoformat()}")
    query.restart()
    put(query, 10)
    assert query.plan()
    assert query.clock.now() >= start
    query.run()
    late = put(query, 5)
    assert sorted(row.data for row in query.run_all()) == sorted(late)


def test_start_position_that_is_not_in_the_past_is_refused() -> None:
    query = memory_query(1)
    start = (query.clock.now() + 2 * query.options.patience).isoformat()
    query.options = options(startPosition=f"AT_TIMESTAMP:{start}")
    query.restart()
    put(query, 1)
    with pytest.raises(SettingsError, match=r"startPosition.*a time in the past"):
        query.plan()
    with pytest.raises(SettingsError, match=r"startPosition.*a time in the past"):
        batch_rows(query, startPosition=f"AT_TIMESTAMP:{start}")


def test_batch_from_a_moment_that_kinesis_clock_has_not_reached_has_no_rows() -> None:
    """By a filter, while records arrive."""
    query = memory_query(1)
    put(query, 1)
    query.clock.sleep(5 * SECOND)

    def put_one(_: str) -> None:
        put(query, 1)

    query.stream.refuse = put_one
    began = query.clock.steady()
    assert batch_rows(query, ReadScope(since=began + 100 * SECOND)) == []
    assert query.clock.steady() - began < 20 * SECOND
