"""One batch by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet import Batch, StreamRecord, UserRecord
from sublet.testing import batch, checkpointed
from sublet.testing.memory.clock import BEGINNING


def test_made_batch_looks_like_a_handlers_batch() -> None:
    given = batch([b"a", ("customer-7", b"b")], attempt=2, remaining=timedelta(seconds=3))
    assert [(record.partition_key, record.data) for record in given.records] == [
        ("key-0", b"a"),
        ("customer-7", b"b"),
    ]
    assert [record.sequence_number for record in given.records] == ["1", "2"]
    assert (given.attempt, given.remaining_time_in_millis()) == (2, 3000)
    assert (given.stream, given.region, given.account) == ("memory", "us-east-1", "123456789012")


def test_made_batch_remembers_its_checkpoints() -> None:
    given = batch([b"a", b"b"])
    assert checkpointed(given) == []
    given.checkpoint(given.records[1])
    assert checkpointed(given) == [given.records[1]]


def test_a_record_of_another_batch_is_refused_as_the_engine_does() -> None:
    with pytest.raises(ValueError, match="not one of this batch's records"):
        batch([b"a"]).checkpoint(batch([b"a"]).records[0])


def test_checkpointed_refuses_a_batch_not_made_here() -> None:
    given = batch([b"a"])
    with pytest.raises(TypeError, match="not made by"):
        checkpointed(Batch("events", "shard", given.records, 0, lambda _: True))


def test_records_may_be_given_whole() -> None:
    record = UserRecord(b"a", "k", 3, StreamRecord("17", b"...", "k", BEGINNING))
    assert batch([record]).records == (record,)


def test_an_empty_batch_never_comes() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        batch([])


def test_a_batch_in_a_log_shows_no_data() -> None:
    assert repr(batch([b"secret", b"too"])) == "<Batch of memory shardId-000000000000: 2 records, 1 to 2, attempt 1>"
