"""An outbox puts into a call as much as fits, in order, within the shard's limit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.decisions.load.write_limit import WriteLimit
from sublet.decisions.putting.outbox import (
    BYTES_PER_CALL,
    RECORDS_PER_CALL,
    CallRoom,
    Outbox,
    OutboxEntry,
    ProducerRules,
    QueuedRecord,
    SendReason,
)
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.records import StreamRecord
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
SOON, LATER = NOW + timedelta(milliseconds=99), NOW + timedelta(milliseconds=100)
FREE = ProducerRules(rate_limit=None)
PLAIN = ProducerRules(rate_limit=None, aggregation_enabled=False)


def record(data: bytes = b"x", key: str = "k", explicit: str | None = None) -> QueuedRecord:
    return QueuedRecord.of(data, key, explicit, arrived_at=NOW, epoch=0, ticket=None)


def outbox(*records: QueuedRecord, rules: ProducerRules = FREE) -> Outbox:
    box = Outbox("shardId-000000000000", rules, NOW)
    for each in records:
        box.add(each)
    return box


def taken(box: Outbox, room: CallRoom | None = None, *, only_full: bool = False) -> list[OutboxEntry]:
    return list(box.take(NOW, room or CallRoom(), only_full=only_full))


def data_of(entry: OutboxEntry) -> list[bytes]:
    return [each.data for each in entry.user_records]


@pytest.mark.parametrize("size", [0, 1, 90, 120, 127, 128, 5_000, 16_300, 17_000])
@pytest.mark.parametrize("explicit", [None, "340282366920938463463374607431768211455"])
@pytest.mark.parametrize("keys", [1, 7, 400])
def test_an_aggregate_is_never_larger_than_it_may_be_nor_much_smaller(
    size: int, explicit: str | None, keys: int
) -> None:
    box = outbox(*(record(bytes(size), f"ключ-{n % keys}", explicit) for n in range(8_000 if size < 200 else 400)))
    (entry,) = taken(box)
    made = entry.stream_record()
    assert made.size <= entry.size
    assert len(made.data) <= FREE.aggregation_max_size
    if explicit is None:
        assert len(made.data) > 0.6 * FREE.aggregation_max_size - size
    given = deaggregate([StreamRecord("1", made.data, made.partition_key)], None).user_records
    assert [(r.data, r.partition_key, r.explicit_hash_key) for r in given] == [
        (r.data, r.partition_key, r.explicit_hash_key) for r in entry.user_records
    ]


def test_a_record_that_is_larger_than_an_aggregate_or_alone_is_put_plain() -> None:
    box = outbox(record(bytes(60_000)), record(b"y"))
    for expected in (bytes(60_000), b"y"):
        (entry,) = taken(box)
        assert entry.stream_record().data == expected
        box.in_flight = 0


def test_ordered_outbox_has_one_aggregate_in_flight_and_retries_it_first() -> None:
    box = outbox(*(record(b"%d" % n) for n in range(3)))
    (entry,) = taken(box)
    box.add(record(b"3"))
    was_held = box.is_held
    box.in_flight -= 1
    box.add_first(entry.user_records)
    assert (was_held, box.is_held) == (True, False)
    assert data_of(taken(box)[0]) == [b"0", b"1", b"2", b"3"]


def test_ordered_call_takes_one_plain_record_per_key_and_keeps_the_rest_in_order() -> None:
    box = outbox(*(record(b"%d" % n, f"k{n % 3}") for n in range(9)), rules=PLAIN)
    assert [data_of(entry) for entry in taken(box)] == [[b"0"], [b"1"], [b"2"]]
    assert [each.data for each in box.waiting] == [b"%d" % n for n in range(3, 9)]


def test_a_call_has_room_for_500_records_and_10_mib_and_takes_one_record_of_any_size() -> None:
    box = outbox(*(record(b"x", f"k{n}") for n in range(600)), rules=PLAIN)
    assert len(taken(box)) == RECORDS_PER_CALL
    large = outbox(*(record(bytes(4 * 2**20), f"k{n}") for n in range(3)), rules=PLAIN)
    entries = taken(large)
    assert len(entries) == 2
    assert sum(entry.stream_record().size for entry in entries) <= BYTES_PER_CALL
    huge = outbox(record(bytes(10 * 2**20 - 1)), rules=PLAIN)
    assert len(taken(huge)) == 1


def test_outbox_tells_why_it_sends() -> None:
    box = outbox(record())
    assert box.why(SOON, None) is None
    assert box.why(LATER, None) is SendReason.DUE
    assert box.why(SOON, NOW) is SendReason.FLUSH
    assert box.wants_to_send_at(SOON, None) == LATER
    for _ in range(60):
        box.add(record(bytes(1_000)))
    assert box.why(SOON, None) is SendReason.FULL
    box.refused = 1
    assert box.why(SOON, None) is SendReason.RETRY


def test_an_idle_shard_takes_a_second_s_worth_at_once_and_then_keeps_to_its_limit() -> None:
    box = outbox(*(record(b"x", f"k{n}") for n in range(3_000)), rules=ProducerRules(aggregation_enabled=False))
    count = 0
    while not box.limit or not box.limit.wait(NOW):
        count += len(taken(box))
        box.in_flight = 0
    assert count == 1_000
    assert box.may_send_at(NOW) == NOW + timedelta(milliseconds=1)


def test_a_limit_may_be_exceeded_by_one_record_whose_debt_is_then_waited_for() -> None:
    limit = WriteLimit(0.5, NOW)
    limit.spend(1, 10 * 2**20, NOW)
    assert timedelta(seconds=18.9) < limit.wait(NOW) < timedelta(seconds=19.1)
    assert limit.wait(NOW + timedelta(seconds=19.1)) == timedelta(0)
