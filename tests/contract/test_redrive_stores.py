"""A redrive from each store, as the services behave: FIFO groups that begin with failing batches, two redrives at once,
unreadable objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from sublet.aws.set_aside.failure_destinations import SqsDestination
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.operate.redrive import Redrive, RedriveProgress
from sublet.ports import SetAsideStore, StoreCounts
from sublet.protocol.failure_document import SetAsideBatch, object_bytes
from sublet.settings import Settings
from sublet.testing.memory import FakeClock, MemoryLog

from tests.contract.test_failure_destination import batch
from tests.doubles.s3_model import S3Model, client_of
from tests.doubles.sqs_model import SqsModel

SETTINGS = Settings(application="orders", stream="events", handler="orders:handle")
QUEUE = "arn:aws:sqs:us-east-1:123456789012:given-up"
SHARDS = [f"shardId-00000000000{n}" for n in range(3)]


@dataclass
class Redriving:
    """`takes`: seconds of each call."""

    store: SetAsideStore
    clock: FakeClock = field(default_factory=FakeClock)
    takes: float = 0
    fails: Collection[str] = ()
    handled: list[str] = field(default_factory=list)
    log: MemoryLog = field(default_factory=MemoryLog)
    before_each: Callable[[], None] = lambda: None

    def handle(self, given: Batch) -> None:
        self.before_each()
        self.clock.advance(timedelta(seconds=self.takes))
        numbers = [record.sequence_number for record in given.records]
        if set(numbers) & set(self.fails):
            raise ValueError("still bad")
        self.handled += numbers

    def run(self) -> RedriveProgress:
        return Redrive(self.store, HandlerFunctions(self.handle), SETTINGS, self.clock, self.log).run()


def queue_of(
    *kept: SetAsideBatch, fifo: bool = True, seed: int = 0, clock: FakeClock | None = None
) -> tuple[SqsModel, Redriving]:
    clock = clock or FakeClock()
    model = SqsModel(QUEUE + (".fifo" if fifo else ""), clock.now, Random(seed))
    destination = SqsDestination(client_of(model), model.arn)
    for each in kept:
        destination.put(each)
    return model, Redriving(destination, clock)


def alone(numbers: Collection[int], shard: str = SHARDS[0]) -> list[SetAsideBatch]:
    return [batch(number, 1, shard) for number in numbers]


@pytest.mark.parametrize("failing", [3, 9])
def test_fewer_than_ten_that_fail_let_the_others_of_their_group_pass(failing: int) -> None:
    model, redriving = queue_of(*alone(range(30)))
    redriving.fails = {str(number) for number in range(failing)}
    done = redriving.run()
    assert (done.done, done.failed, done.held_back, done.behind) == (30 - failing, failing, (), 0)
    assert redriving.handled == [str(number) for number in range(failing, 30)]
    assert redriving.store.counted() == StoreCounts(failing), "whatever stays can be had again at once"
    assert len(model.messages) == failing


def test_redrive_reports_a_message_group_held_back_by_ten_failures() -> None:
    """This is SQS' rule. All that is known of those behind is how many there are, in all groups together."""
    _, redriving = queue_of(*alone(range(30)), *alone(range(100, 130), SHARDS[1]))
    redriving.fails = {str(number) for number in range(12)}
    done = redriving.run()
    assert (done.done, done.failed) == (30, 10), "the other group is done"
    assert (done.held_back, done.behind, done.stays) == ((f"orders.{SHARDS[0]}",), 20, 30)
    assert redriving.store.counted() == StoreCounts(30)
    redriving.fails = ()
    assert redriving.run().stays == 0


@pytest.mark.parametrize("seed", range(12))
def test_groups_that_share_a_reply_do_not_hold_each_other_back(seed: int) -> None:
    """SQS fills a reply of ten with messages of several groups: it may return three of a group that stay, and have
    more.
    """
    kept = [each for shard in SHARDS for each in alone(range(25), shard)]
    _, redriving = queue_of(*kept, seed=seed)
    redriving.fails = {str(number) for number in range(7)}
    done = redriving.run()
    assert (done.done, done.failed, done.held_back) == (3 * 18, 3 * 7, ())


@pytest.mark.parametrize("fifo", [False, True])
def test_batch_is_not_removed_once_another_may_have_received_it(fifo: bool) -> None:
    """A call of more than 15 minutes: others may receive the batch by then, and a FIFO queue does not let us remove it
    any more.
    """
    _, redriving = queue_of(*alone(range(3)), fifo=fifo)
    redriving.takes = 16 * 60
    done = redriving.run()
    assert sorted(set(redriving.handled)) == ["0", "1", "2"]
    assert (done.changed > 0) == fifo
    redriving.takes = 0
    redriving.run()
    assert redriving.store.counted() == StoreCounts(0)


@pytest.mark.parametrize("fifo", [False, True])
def test_each_batch_has_its_fifteen_minutes_however_long_it_waited(fifo: bool) -> None:
    """The ones before it took an hour: it was hidden for 15 minutes when it was received."""
    _, redriving = queue_of(*alone(range(8)), fifo=fifo)
    redriving.takes = 8 * 60
    done = redriving.run()
    assert (done.done, done.changed, done.failed) == (8, 0, 0)
    assert sorted(redriving.handled) == [str(number) for number in range(8)], "each once"


@pytest.mark.parametrize("fifo", [False, True])
def test_a_queue_s_dead_letter_queue_gets_nothing_that_waits_for_its_turn(fifo: bool) -> None:
    """The redrive takes two hours. A message that was received three times goes to the dead-letter queue."""
    model, redriving = queue_of(*alone(range(30)), fifo=fifo)
    model.max_receive_count = 3
    redriving.takes = 4 * 60
    done = redriving.run()
    assert (done.done, len(model.dead_letters)) == (30, 0)
    assert done.is_complete
    assert sorted(map(int, redriving.handled)) == list(range(30)), "each once"


def test_failed_batches_stay_in_a_queue_however_long_the_redrive_takes() -> None:
    """Until a redrive has ended, it receives each message once."""
    model, redriving = queue_of(*alone(range(30)), fifo=False)
    model.max_receive_count = 1
    redriving.takes, redriving.fails = 4 * 60, {"0", "1"}
    done = redriving.run()
    assert (done.done, done.failed, len(model.messages), len(model.dead_letters)) == (28, 2, 2, 0)


def test_waiting_batches_stay_hidden_while_the_rate_is_limited() -> None:
    """A record every twenty minutes."""
    model, redriving = queue_of(*alone(range(6)), fifo=False)
    model.max_receive_count = 1
    redrive = Redrive(
        redriving.store,
        HandlerFunctions(redriving.handle),
        SETTINGS,
        redriving.clock,
        redriving.log,
        max_rate=1 / 1200,
        pause=redriving.clock.advance,
    )
    done = redrive.run()
    assert (done.done, len(model.dead_letters)) == (6, 0)


def test_redrive_receives_a_message_again_after_twelve_hours() -> None:
    """SQS hides a message for 12 hours at most. The redrive takes 24."""
    model, redriving = queue_of(*alone(range(144)), fifo=False)
    redriving.takes = 10 * 60
    done = redriving.run()
    assert (done.done, len(model.messages)) == (144, 0)
    assert len(redriving.handled) == 144, "each once"
    assert model.received < 3 * 144


def test_redrive_reports_messages_that_the_dead_letter_queue_took() -> None:
    """Calls of 20 minutes: nothing can be extended meanwhile."""
    model, redriving = queue_of(*alone(range(5)), fifo=False)
    model.max_receive_count = 2
    redriving.takes = 20 * 60
    done = redriving.run()
    assert done.missed == len(model.dead_letters) > 0
    assert not done.is_complete


@pytest.mark.parametrize("ignores_conditions", [False, True])
def test_overwritten_object_is_not_removed(ignores_conditions: bool) -> None:
    """By another version, which names it by its first position alone. If conditions are ignored, by this one."""
    model = S3Model(ignores_conditions=ignores_conditions)
    store = S3Destination(client_of(model), "given-up", "")
    redriving = Redriving(store)
    key = f"orders/{SHARDS[0]}/100-0.jsonl.gz"
    model.put_object(Key=key, Body=object_bytes(batch(100, 3)))
    store.put(batch(100, 3))

    def another_sets_more_aside() -> None:
        store.put(replace(batch(100, 7), holder="another"))
        if not ignores_conditions and not redriving.handled:
            model.put_object(Key=key, Body=object_bytes(batch(100, 7)))

    redriving.before_each = another_sets_more_aside
    redriving.run()
    redriving.before_each = lambda: None
    redriving.run()
    assert {str(number) for number in range(100, 107)} <= set(redriving.handled)
    assert model.objects == {}


@pytest.mark.parametrize("missing", ["NoSuchKey", "PreconditionFailed"])
def test_concurrent_redrives_of_a_bucket_leave_one_going_on(missing: str) -> None:
    """If the service hides nothing, they meet at the first batch that both have read."""
    model = S3Model(missing=missing)
    store = S3Destination(client_of(model), "given-up", "")
    for each in alone(range(20)):
        store.put(each)
    first, second = Redriving(store), Redriving(S3Destination(client_of(model), "given-up", ""))
    others: list[RedriveProgress] = []

    def the_other_begins() -> None:
        if len(first.handled) == 5 and not others:
            others.append(second.run())

    first.before_each = the_other_begins
    done = first.run()
    assert (others[0].done, others[0].is_shared) == (15, False)
    assert (done.done, done.is_shared) == (5, True)
    assert sorted(map(int, first.handled + second.handled)) == sorted([*range(20), 5]), "one batch twice"


def test_an_object_that_another_has_removed_since_it_was_listed_is_passed_over() -> None:
    model = S3Model()
    store = S3Destination(client_of(model), "given-up", "")
    for each in alone(range(3)):
        store.put(each)
    redriving = Redriving(store)
    last = max(model.objects)
    redriving.before_each = lambda: model.objects.pop(last, None) and None
    done = redriving.run()
    assert (done.done, done.stays, done.is_shared) == (2, 0, False)


def test_redrive_needs_no_access_to_another_applications_folder() -> None:
    """Nor is it read: a role that may redrive this application needs access only to its own folder."""
    model = S3Model(denied=("aside/audit/",))
    store = S3Destination(client_of(model), "given-up", "aside")
    for each in alone(range(3)):
        store.put(each)
        store.put(replace(each, application="audit"))
    redriving = Redriving(store)
    done = redriving.run()
    assert (done.done, done.foreign) == (3, 3)
    assert [line.fields["problem"] for line in redriving.log.lines] == ["of the application audit"]


def test_an_unreadable_object_of_ours_is_left_alone_and_reported() -> None:
    model = S3Model()
    store = S3Destination(client_of(model), "given-up", "")
    for each in alone(range(3)):
        store.put(each)
    (denied,) = [key for key in model.objects if "/1-0-" in key]
    model.denied = (denied,)
    redriving = Redriving(store)
    done = redriving.run()
    assert (done.done, done.foreign) == (2, 1)
    (line,) = redriving.log.lines
    assert line.fields["kept_as"] == denied
    assert "AccessDenied" in str(line.fields["problem"])


def test_an_object_too_large_for_a_batch_is_not_even_fetched() -> None:
    class Large(S3Model):
        def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803 - the client's
            return {**super().get_object(Key=Key), "ContentLength": 2**40, "Body": None}

    model = Large()
    store = S3Destination(client_of(model), "given-up", "")
    store.put(batch(1))
    assert Redriving(store).run().foreign == 1
