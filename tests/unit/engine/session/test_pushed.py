"""A lease session whose shard is read by push."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from sublet.decisions.session.push import LASTS, TAKEN_OVER_AFTER, PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.process_shared import Budget, PageSize, QuietShards
from sublet.engine.session.pages import POLL_REPLY_MAX, PageFeed
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.ports import ShardSubscription
from sublet.protocol.checkpoint import SHARD_END
from sublet.reading.pushing import UnregisteredConsumer
from sublet.testing.memory import MemoryFanOut
from sublet.testing.memory.pushes import LOOKS_EVERY, MemorySubscription

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, SHARD, EngineWorld

HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)


class Pushed:
    """A world whose workers are pushed to, and its consumer."""

    def __init__(self, shards: int = 1) -> None:
        self.world = EngineWorld(CONTINUOUS, shards=shards)
        self.consumer = MemoryFanOut(self.world.shards, self.world.clock, self.world.tasks)
        self.world.ports_with["pushes"] = self.consumer

    def subscription(self) -> MemorySubscription:
        return self.consumer._latest[SHARD]


def test_records_are_handled_as_they_are_put_and_nothing_is_polled() -> None:
    pushed = Pushed()
    world = pushed.world
    came: list[tuple[bytes, float]] = []
    world.handler.script = lambda batch: came.extend((record.data, world.seconds()) for record in batch.records)
    for at in (3, 3.5, 20, 47):
        world.at(timedelta(seconds=at), partial(world.put, str(at)))
    world.window()
    assert [data for data, _ in came] == [b"3", b"3.5", b"20", b"47"]
    assert all(0 <= when - float(data) <= 2 * LOOKS_EVERY.total_seconds() for data, when in came), came
    assert world.stream.polls == []


def test_a_window_longer_than_a_subscription_loses_and_repeats_nothing() -> None:
    pushed = Pushed()
    world = pushed.world
    for at in range(1, 1200, 7):
        world.at(timedelta(seconds=at), partial(world.put, str(at)))
    world.window(lasts=4 * LASTS)
    assert world.handler.data() == [b"%d" % at for at in range(1, 1200, 7)]


def test_a_handler_slower_than_a_subscription_loses_nothing_and_does_not_flap() -> None:
    """amazon-kinesis-client#463, #583, #653, #757: processing longer than a time limit ended KCL's subscriptions."""
    pushed = Pushed()
    world = pushed.world
    subscribed: list[float] = []
    real = pushed.consumer.subscribe

    def subscribe(*arguments: object) -> ShardSubscription | PushEnd:
        subscribed.append(world.seconds())
        return real(*arguments)  # type: ignore[arg-type]

    pushed.consumer.subscribe = subscribe  # type: ignore[method-assign, assignment]

    def slow(batch: Batch) -> None:
        world.tasks.wait(lambda: False, world.clock.steady() + LASTS + MINUTE)

    world.handler.script = slow
    for at in range(0, 1500, 100):
        world.at(timedelta(seconds=at), partial(world.put, str(at)))
    world.window(lasts=timedelta(minutes=40))
    assert world.handler.data() == [b"%d" % at for at in range(0, 1500, 100)]
    assert len(subscribed) <= 10, subscribed


def test_pushed_windows_lose_and_repeat_nothing_and_leave_no_subscription() -> None:
    """Each longer than a subscription, with records throughout."""
    pushed = Pushed()
    world = pushed.world
    for at in range(1, 1000, 3):
        world.at(timedelta(seconds=at), partial(world.put, str(at)))
    first = world.window(lasts=LASTS + 2 * MINUTE)
    assert pushed.subscription().cut.is_set(), "nobody reads it any more"
    second = world.window(first.item, lasts=world.began + timedelta(seconds=1010) - world.clock.steady())
    assert world.handler.data() == [b"%d" % at for at in range(1, 1000, 3)]
    assert [lease.outcome for lease in (*first.leases, *second.leases)] == 2 * [SessionOutcome.WINDOW_ENDED]
    assert pushed.subscription().cut.is_set()


def test_next_window_waits_seconds_after_a_window_that_had_just_subscribed() -> None:
    pushed = Pushed()
    world = pushed.world
    came: list[tuple[bytes, float]] = []
    world.handler.script = lambda batch: came.extend((each.data, world.seconds()) for each in batch.records)
    world.put("before")
    report = world.window(lasts=2 * SECOND)
    world.put("between")
    world.at(SECOND, lambda: world.put("after"))
    world.window(report.item)
    assert [data for data, _ in came] == [b"before", b"between", b"after"]
    assert came[1][1] <= TAKEN_OVER_AFTER.total_seconds() + 2, "since the first window subscribed"


def test_a_handler_that_is_slower_than_a_subscription_and_the_window_ends_with_it() -> None:
    """The next window goes on after the records that it has finished, although their subscription ended meanwhile."""
    pushed = Pushed()
    world = pushed.world
    world.handler.script = lambda _: world.tasks.wait(lambda: False, world.clock.steady() + LASTS + MINUTE)
    for at in range(0, 900, 100):
        world.at(timedelta(seconds=at), partial(world.put, str(at)))
    report = world.window(lasts=LASTS)
    assert world.handler.data() == [b"0"]
    world.handler.script = lambda _: None
    world.window(report.item, lasts=2 * LASTS)
    assert world.handler.data() == [b"%d" % at for at in range(0, 900, 100)]


def test_records_of_a_failed_call_come_again() -> None:
    """Under fan-out a KCL goes on behind them: "The incoming data has been skipped" (ShardConsumer)."""
    pushed = Pushed()
    world = pushed.world
    calls: list[list[bytes]] = []

    def fail_once(batch: Batch) -> None:
        calls.append([record.data for record in batch.records])
        if len(calls) == 1:
            raise ValueError("once")

    world.handler.script = fail_once
    world.put("one")
    world.at(5 * SECOND, lambda: world.put("two"))
    world.window()
    assert calls == [[b"one"], [b"one"], [b"two"]]


def test_a_split_shard_ends_and_its_children_are_read() -> None:
    pushed = Pushed()
    world = pushed.world
    world.put("before")
    world.at(5 * SECOND, lambda: world.shards.split(SHARD))
    world.at(8 * SECOND, lambda: world.put("low", "high", shard=0))
    world.window()
    assert world.table.lease().checkpoint == SHARD_END
    assert world.handler.data() == [b"before", b"low", b"high"]


def test_a_lost_lease_ends_the_subscription_at_once_although_the_handler_is_busy() -> None:
    pushed = Pushed()
    world = pushed.world
    ended_at: list[float] = []

    def busy(_: Batch) -> None:
        world.steal()
        subscription = pushed.subscription()
        world.tasks.wait(subscription.cut.is_set, world.clock.steady() + MINUTE)
        ended_at.append(world.seconds())

    world.handler.script = busy
    world.put("one")
    report = world.window()
    assert [lease.outcome for lease in report.leases] == [SessionOutcome.LEASE_LOST]
    assert ended_at[0] <= (CONTINUOUS.heartbeat_interval + SECOND).total_seconds()


def test_a_new_owner_takes_the_shard_over_and_the_old_one_stays_away() -> None:
    """A zombie that does not know yet that its lease is lost must not take the shard back every five seconds
    (FLINK-38814).
    """
    pushed = Pushed()
    world = pushed.world
    world.at(10 * SECOND, lambda: pushed.consumer.subscribe(SHARD, HORIZON))
    taken: list[MemorySubscription] = []
    world.at(11 * SECOND, lambda: taken.append(pushed.subscription()))
    world.at(25 * SECOND, lambda: taken.append(pushed.subscription()))
    world.at(50 * SECOND, lambda: taken.append(pushed.subscription()))
    world.window()
    assert taken[0] is taken[1]
    assert taken[2] is not taken[1], "its lease is still its own, so it subscribes again"


def test_a_young_subscription_of_another_owner_is_waited_out() -> None:
    pushed = Pushed()
    world = pushed.world
    pushed.consumer.subscribe(SHARD, HORIZON)
    world.put("one")
    came: list[float] = []
    world.handler.script = lambda _: came.append(world.seconds())
    world.window()
    assert TAKEN_OVER_AFTER.total_seconds() <= came[0] <= TAKEN_OVER_AFTER.total_seconds() + 2


def test_shard_is_polled_and_logged_without_its_consumer() -> None:
    pushed = Pushed()
    world = pushed.world
    world.put("one")
    world.at(20 * SECOND, lambda: setattr(pushed.consumer, "is_registered", False))
    world.at(30 * SECOND, lambda: world.put("two"))
    world.window()
    assert world.handler.data() == [b"one", b"two"]
    assert world.stream.polls
    (line,) = [line for line in world.log.lines if "polled instead" in line.message]
    assert line.fields == {"shard_id": SHARD, "consumer": CONTINUOUS.fan_out_consumer}
    assert [each.value for each in world.metrics.measurements if each.metric is Metric.FAN_OUT_POLLED_INSTEAD] == [1]


def test_shard_is_polled_and_counted_when_its_consumer_was_not_registered() -> None:
    world = EngineWorld(CONTINUOUS)
    world.ports_with["pushes"] = UnregisteredConsumer()
    world.put("one")
    world.window()
    assert world.handler.data() == [b"one"]
    assert [each.shard_id for each in world.metrics.measurements if each.metric is Metric.FAN_OUT_POLLED_INSTEAD] == [
        SHARD
    ]


def test_a_page_read_late_is_of_when_it_was_sent() -> None:
    """What has come while the handler was busy was sent at any time since the reader last found nothing to read. So
    only that time is known as one when the shard was at its tip.
    """
    pushed = Pushed()
    world = pushed.world
    world.put("one")
    budget = Budget(2 * POLL_REPLY_MAX, 100_000, world.tasks)
    quiet, stop = QuietShards(world.tasks), world.tasks.signal()
    feed = PageFeed(SHARD, HORIZON, world.ports, CONTINUOUS, budget, quiet, stop, world.began + LASTS)
    first = feed.next()
    assert first is not None
    world.clock.advance(30 * SECOND)
    late = feed.next()
    assert late is not None
    assert (late.millis_behind_latest, feed.polled_at) == (0, world.began)
    assert feed.next() is not None
    assert feed.polled_at - world.began >= 30 * SECOND
    stop.set()
    feed.close()


def test_pushed_page_waits_for_memory_and_holds_its_share_until_closed() -> None:
    world = Pushed().world
    world.put("one")
    everything = PageSize(POLL_REPLY_MAX, 100_000)
    budget = Budget(everything.bytes, everything.records, world.tasks)
    assert budget.take(everything), "by the others"
    world.at(10 * SECOND, partial(budget.free, everything))
    stop = world.tasks.signal()
    feed = PageFeed(
        SHARD, HORIZON, world.ports, CONTINUOUS, budget, QuietShards(world.tasks), stop, world.began + LASTS
    )
    page = feed.next()
    assert page is not None
    assert ([record.data for record in page.records], world.seconds() >= 10) == ([b"one"], True)
    assert not budget.take(everything), "it is in hand"
    stop.set()
    feed.close()
    assert budget.take(everything)
