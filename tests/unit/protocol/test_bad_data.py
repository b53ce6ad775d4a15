"""Data that no producer should send: faults that the fuzzer (`make fuzz`) found, and how much memory and time the worst
may take.
"""

from __future__ import annotations

import hashlib
import json
import resource
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from sublet.aws.tables.sighting_chunks import decode_chunk
from sublet.decisions.manager.worker_item_json import item_from_json
from sublet.errors import EventError, MalformedCheckpoint, SettingsError
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.kpl_format import MAGIC, write_aggregate
from sublet.protocol.lease import AttributeValue, Lease, MalformedRow
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import apply_to, heartbeat
from sublet.protocol.records import StreamRecord
from sublet.settings import Settings, duration_text, parse_duration

MIB = 2**20
RECORD_MAX = 10 * MIB
"""Kinesis: the largest record, since 2025."""


def row(**odd: AttributeValue) -> dict[str, AttributeValue]:
    return {**encode_row(Lease("shardId-000000000000", Checkpoint("77"))), **odd}


# What the fuzzer found


@pytest.mark.parametrize("text", ["9" * 400 + "d", "999999999999d", "99999999999999999999h"])
def test_duration_beyond_timedelta_is_a_settings_error(text: str) -> None:
    with pytest.raises(SettingsError, match="36,525 days"):
        parse_duration("window", text)


@pytest.mark.parametrize("text", ["1234567.8ms", "1000000.001ms", "0.5ms", "1.25s", "40.0001s", "14m"])
def test_a_duration_of_many_digits_goes_through_an_environment_unchanged(text: str) -> None:
    """It was written with six digits and an exponent, which nothing reads."""
    duration = parse_duration("window", text)
    assert parse_duration("window", duration_text(duration)) == duration


def test_a_days_window_to_the_microsecond_survives_deployment() -> None:
    settings = Settings(application="app", stream="s", window=timedelta(hours=23, microseconds=1))
    assert Settings.from_environment(settings.to_environment()) == settings


def test_an_empty_holder_means_no_holder_as_an_empty_owner_means_no_owner() -> None:
    empty = row(subletHolder={"S": ""})
    lease = decode_row(empty)
    assert isinstance(lease, Lease)
    assert lease.holder is None
    assert decode_row(encode_row(lease)) == lease
    for unowned in (empty, row(subletHolder={"NULL": True}), row()):
        assert apply_to(heartbeat(lease), unowned)
    assert apply_to(heartbeat(lease), row(subletHolder={"S": "another/1"})) is None


def test_a_stored_sighting_that_cannot_be_compared_is_no_sighting() -> None:
    """Two chunks may hold the same lease, and the newer one counts."""
    good = {"lease_keys": ["k"], "counters": [5], "owners": ["w"], "seen_at": [1_769_846_400_000]}
    assert decode_chunk(_compressed(good))
    for odd in (
        {"counters": [[5]]},
        {"counters": ["5"]},
        {"lease_keys": [7]},
        {"owners": [7]},
        {"seen_at": ["x"]},
    ):
        assert decode_chunk(_compressed(good | odd)) == []
    assert decode_chunk(zlib.compress(b"[" * 100_000)) == []


def _compressed(columns: object) -> bytes:
    return zlib.compress(json.dumps(columns).encode())


# Deep and long junk: one short sentence, whatever it is


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("junk", [nested(100_000), "x" * 6 * MIB, {"k" * MIB: 1}, [0] * 100_000])
@pytest.mark.parametrize("name", ["claims", "item_id", "worker_id", "windows_left"])
def test_an_event_of_deep_or_long_junk_is_one_short_event_error(junk: object, name: str) -> None:
    event = {"item_id": "i", "worker_id": "w", "claims": [], "windows_left": 1, name: junk}
    if name in ("item_id", "worker_id") and isinstance(junk, str):
        assert getattr(item_from_json(event), name) == junk
        return
    with pytest.raises(EventError) as refused:
        item_from_json(event)
    assert len(str(refused.value)) < 500


def test_a_setting_of_a_megabyte_is_one_short_settings_error() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_environment({"SUBLET_APPLICATION": "app", "SUBLET_STREAM": "s" * MIB})
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "odd",
    [
        {"checkpoint": {"S": "9" * 400_000}},
        {"leaseCounter": {"N": "9" * 400_000}},
        {"checkpoint": {"M": {"deep": {"S": "x" * 400_000}}}},
        {"startingHashKey": {"S": "9" * 400_000}, "endingHashKey": {"S": "1"}},
        {"parentShardId": {"L": nested(30)}},
    ],
)
def test_a_row_of_deep_or_long_junk_is_malformed_in_one_short_sentence(
    odd: dict[str, AttributeValue],
) -> None:
    malformed = decode_row(row(**odd))
    assert isinstance(malformed, MalformedRow)
    assert len(malformed.problem) < 500


def test_a_checkpoint_of_a_megabyte_is_one_short_error() -> None:
    with pytest.raises(MalformedCheckpoint) as refused:
        Checkpoint.parse("x" * MIB)
    assert len(str(refused.value)) < 500


# Large records: memory and time within a few times the record itself, each in a process of its own


def framed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def one_plain_record() -> tuple[bytes, int]:
    return bytes(RECORD_MAX), 1


def ten_thousand_user_records() -> tuple[bytes, int]:
    return aggregate([(f"key-{n % 7}", None, bytes(1000)) for n in range(10_000)]), 10_000


def a_table_of_a_hundred_thousand_keys() -> tuple[bytes, int]:
    return aggregate([(f"partition-key-{n:06}", None, b"data") for n in range(100_000)]), 100_000


def a_table_that_nobody_uses() -> tuple[bytes, int]:
    return write_aggregate([f"key-{n}" for n in range(100_000)], [], [(0, None, b"data")]), 1


def as_many_empty_user_records_as_fit() -> tuple[bytes, int]:
    """Six bytes each on the wire, the worst that a record can hold: a tenth of 10 MiB of them."""
    count = RECORD_MAX // 10 // 6
    return framed(b"\x0a\x01k" + b"\x1a\x04\x08\x00\x1a\x00" * count), count


def deep_groups() -> tuple[bytes, int]:
    """Protobuf's groups nest without limit; a reader must stop, and the record is plain then."""
    return framed(b"\x0b" * 100_000 + b"\x0c" * 100_000), 1


def _deaggregated(file: Path) -> tuple[int, float, int]:
    """User records, seconds of CPU time, and the bytes of memory that it took at most beyond the record itself."""
    record = StreamRecord("7", file.read_bytes(), "outer", datetime(2026, 1, 31, tzinfo=UTC))
    before, started = _peak_bytes(), time.process_time()
    found = deaggregate([record], None)
    return len(found.user_records), time.process_time() - started, _peak_bytes() - before


def _peak_bytes() -> int:
    """Of this process alone: Linux' getrusage begins with what its parent had."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "megabytes"),
    [
        (one_plain_record, 1),
        (ten_thousand_user_records, 45),
        (a_table_of_a_hundred_thousand_keys, 60),
        (a_table_that_nobody_uses, 40),
        (as_many_empty_user_records_as_fit, 90),
        (deep_groups, 5),
    ],
)
def test_a_large_record_takes_bounded_memory_and_time(
    make: Callable[[], tuple[bytes, int]], megabytes: int, tmp_path: Path
) -> None:
    data, expected = make()
    file = tmp_path / "record"
    file.write_bytes(data)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found, seconds, peak = pool.submit(_deaggregated, file).result()
    print(f"{make.__name__}: {seconds:.2f} s, {peak / MIB:.1f} MiB")
    assert found == expected
    assert peak <= megabytes * MIB
    assert seconds < 5
