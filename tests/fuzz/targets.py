"""The fuzz targets: each takes any bytes and raises only if sublet breaks a promise.

A target ignores the promised errors (`SettingsError`, `EventError`) and asserts everything else. It runs under atheris
(`make fuzz`); test_targets.py runs each on a few random inputs. Past findings are tests in tests/unit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from random import Random
from typing import Any

from sublet.aws.tables.sighting_chunks import decode_chunk, encode_chunks
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.manager.tick_plan import TickLook, plan_tick
from sublet.decisions.manager.worker_item_json import item_from_json, item_to_json
from sublet.errors import EventError, SettingsError
from sublet.protocol import kpl_format, lease_attributes
from sublet.protocol import lease_writes as writes
from sublet.protocol.aggregation import AggregateColumns, OutOfRange, WholeReason, aggregate_columns, deaggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.lease import AttributeValue, Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard
from sublet.settings import PREFIX, Settings

from tests.fuzz.junk import Junk

MOMENT = datetime(2026, 1, 31, 8, tzinfo=UTC)
SETTINGS = Settings(application="fuzzed", stream="fuzzed")
KEYS = tuple(f"shardId-{n:012}" for n in range(6))


def deaggregation(data: bytes) -> None:
    """Any stream record becomes itself, its user records, or a counted drop; both readers of an aggregate agree."""
    junk = Junk(data)
    hash_key_range = HashKeyRange(0, HASH_KEY_MAX // 2) if junk.below(2) else None
    made = junk.below(4)
    payload = _message(junk) if made > 1 else junk.rest()
    content = kpl_format.MAGIC + payload + hashlib.md5(payload).digest() if made else payload  # noqa: S324
    record = StreamRecord("7", content, "outer", MOMENT)
    result = deaggregate([record], keys_inside(hash_key_range))
    rows = [(r.partition_key, r.explicit_hash_key, r.data) for r in result.user_records]
    assert [r.sub_sequence_number for r in result.user_records] == list(range(len(rows)))
    assert rows == _expected_rows(content, hash_key_range, result.dropped_out_of_range)
    contents = kpl_format.read_aggregate(content)
    if contents is not None and contents.data:
        assert kpl_format._read_records(content[4:-16]) == contents


def _expected_rows(content: bytes, hash_key_range: HashKeyRange | None, dropped: int) -> list[Any]:
    match aggregate_columns(content, keys_inside(hash_key_range)):
        case AggregateColumns(data, table, indexes, explicit):
            assert dropped == 0
            keys = [table[index] for index in indexes]
            return list(zip(keys, explicit or [None] * len(data), data, strict=True))
        case OutOfRange(count):
            assert dropped == count
            return []
        case WholeReason():
            return [("outer", None, content)]


def _message(junk: Junk) -> bytes:
    """Nearly an AggregatedRecord: fields in any order, some missing, repeated, unknown or of another type."""
    fields = [_field(1, b"a"), _field(1, b"b"), _field(2, b"7")]
    for _ in range(junk.below(12)):
        match junk.below(8):
            case 0:
                fields.append(_field(junk.below(20), junk.blob()))
            case 1:
                fields.append(_field(junk.below(4), junk.byte()))
            case _:
                fields.append(_field(3, _record(junk)))
    return b"".join(fields) + (junk.blob() if junk.below(8) == 0 else b"")


def _record(junk: Junk) -> bytes:
    good = [_field(1, junk.below(2)), _field(3, junk.blob()[:9])]
    if junk.below(2):
        good.insert(1, _field(2, 0))
    if junk.below(6) == 0:
        odd = (_field(junk.below(5), junk.byte()), _field(junk.below(5), junk.blob()), b"")
        good[junk.below(len(good))] = junk.pick(odd)
    return b"".join(good)


def _field(number: int, value: int | bytes) -> bytes:
    """Lengths and numbers below 128 fit one byte of protobuf's varint; longer ones make garbage, which is welcome."""
    if isinstance(value, int):
        return bytes([number << 3 & 0xFF, value])
    return bytes([(number << 3 | 2) & 0xFF, len(value) & 0x7F]) + value


def lease_rows(data: bytes) -> None:
    """Any row is a lease, malformed or another entity; a lease survives its row, and every write can be evaluated on
    it.
    """
    row = _row(Junk(data))
    lease = decode_row(row)
    if isinstance(lease, MalformedRow):
        assert lease.problem
        assert len(lease.problem) < 1_000, "a log line, not the row"
    if not isinstance(lease, Lease):
        return
    again = encode_row(lease)
    assert decode_row(again) == lease
    assert {name: again[name] for name in lease.other} == dict(lease.other)
    for write in (
        writes.acquire(lease.fence, "w", "i/1"),
        writes.heartbeat(lease),
        writes.checkpoint(lease, Checkpoint("5", 1)),
        writes.late_checkpoint(lease, Checkpoint("5", 1)),
        writes.release(lease, MOMENT),
        writes.end(lease),
    ):
        after = writes.apply_to(write, row)
        assert after is None or isinstance(decode_row(after), Lease)


def tick_plans(data: bytes) -> None:
    """Any rows and shards give a plan, with no lease in two items."""
    junk = Junk(data)
    decoded = [decode_row({**_row(junk), "leaseKey": {"S": key}}) for key in KEYS[: junk.below(len(KEYS) + 1)]]
    scan = LeaseScan(
        tuple(row for row in decoded if isinstance(row, Lease)),
        tuple(row for row in decoded if isinstance(row, MalformedRow)),
    )
    shards = [_shard(junk, number) for number in range(junk.below(len(KEYS) + 1))]
    plan = plan_tick(TickLook(scan, shards, {}, MOMENT), Random(7), SETTINGS)
    claimed = [claim.lease_key for item in plan.items for claim in item.claims]
    assert len(claimed) == len(set(claimed))


ATTRIBUTES = sorted(
    value
    for name, value in vars(lease_attributes).items()
    if name.isupper() and isinstance(value, str) and name != "LEASE_ENTITY"
)


def _row(junk: Junk) -> dict[str, AttributeValue]:
    """A good row, with some attributes missing, of another type, or odd."""
    lease = Lease(KEYS[0], Checkpoint.parse(junk.digits()), lease_counter=junk.byte(), lease_owner="w")
    row = encode_row(lease)
    for _ in range(junk.below(6)):
        name = junk.pick([*ATTRIBUTES, "theirs"])
        if junk.below(4) == 0:
            row.pop(name, None)
        else:
            row[name] = _attribute(junk)
    return row


def _attribute(junk: Junk, depth: int = 0) -> AttributeValue:
    """As DynamoDB can hold it: N is a number, SS is not empty, M and L nest."""
    kind = junk.pick(("S", "N", "SS", "B", "BOOL", "NULL", "NS", "M", "L"))
    if kind in ("M", "L"):
        inner = _attribute(junk, depth + 1) if depth < 3 else {"NULL": True}
        return {"L": [inner]} if kind == "L" else {"M": {junk.text(): inner}}
    number = junk.pick((junk.digits(), f"-{junk.digits()}", "1.5", "1E+125", "-0", "0.1E-5"))
    plain: dict[str, Any] = {
        "S": junk.pick(KEYS) if junk.below(2) else junk.text(),
        "N": number,
        "SS": sorted({junk.pick(KEYS), junk.pick(KEYS), junk.text() or "-"}),
        "B": junk.blob(),
        "BOOL": junk.below(2) == 0,
        "NULL": True,
        "NS": [number],
    }
    return {kind: plain[kind]}


def _shard(junk: Junk, number: int) -> Shard:
    """Its parents, which come before it, may be gone, open, the same twice or of another hash key range."""
    ends = sorted(int(junk.digits()) % (HASH_KEY_MAX + 1) for _ in range(2))
    one, other = (junk.pick((None, "shardId-long-gone", *KEYS[:number])) for _ in range(2))
    return Shard(KEYS[number], HashKeyRange(*ends), one, other, junk.digits(), junk.below(2) == 0)


def worker_items(data: bytes) -> None:
    """Any event is a worker item, or one EventError with a message for a log line."""
    junk = Junk(data)
    event = _event(junk)
    try:
        item = item_from_json(event)
    except EventError as refused:
        assert len(str(refused)) < 2_000  # noqa: PT017 - the promise is about the error itself
        return
    assert isinstance(item, WorkerItem)
    assert item_from_json(json.loads(json.dumps(item_to_json(item)))) == item


def _event(junk: Junk) -> Any:
    if junk.below(4) == 0:
        return junk.json()
    claims = [
        {
            "lease_key": junk.pick(KEYS),
            "lease_owner": junk.pick((None, "w")),
            "lease_counter": junk.byte(),
            "why": junk.pick(("free", "expired", "child", "steal", "continue")),
        }
        for _ in range(junk.below(4))
    ]
    event: dict[str, Any] = {"item_id": "i", "worker_id": "w", "claims": claims, "windows_left": junk.byte()}
    for _ in range(junk.below(3)):
        victim = junk.pick([event, *claims])
        victim[junk.pick([*victim, "more"])] = junk.json() if junk.below(8) else junk.nested()
    return event


def settings(data: bytes) -> None:
    """Any environment is Settings or one SettingsError; Settings survive an environment unchanged."""
    junk = Junk(data)
    names = [PREFIX + field.name.upper() for field in fields(Settings)]
    environment = {f"{PREFIX}APPLICATION": "fuzzed", f"{PREFIX}STREAM": "fuzzed"}
    for _ in range(junk.below(6)):
        environment[junk.pick(names)] = _setting_text(junk)
    try:
        given = Settings.from_environment(environment)
    except SettingsError:
        return
    assert Settings.from_environment(given.to_environment()) == given


def _setting_text(junk: Junk) -> str:
    return junk.pick(
        (
            junk.text(),
            f"{junk.digits()}{junk.pick(('ms', 's', 'm', 'h', 'd', ''))}",
            f"{junk.byte()}.{junk.digits()}{junk.pick(('ms', 's', 'm', 'h', 'd'))}",
            f"AT_TIMESTAMP:{junk.byte() + 1900}-0{junk.below(10)}-{junk.below(32):02}T00:00:00"
            + junk.pick(("Z", "+23:59", "")),
            junk.digits(),
            junk.pick(("LATEST", "continuous", "catch_up", "off", "kcl", "true", "false")),
        )
    )


def sightings(data: bytes) -> None:
    """Any stored chunk is a list of sightings that can be compared and stored again, or none."""
    junk = Junk(data)
    chunk = data
    if junk.below(4):
        rows = [_sighting_row(junk) for _ in range(junk.below(4))]
        columns: Mapping[str, Any] = {
            name: [row[n] for row in rows] for n, name in enumerate(("lease_keys", "counters", "owners", "seen_at"))
        }
        chunk = _compressed(json.dumps(columns) if junk.below(8) else "[" * (2 << junk.below(16)))
    seen = decode_chunk(chunk)
    again = [row for part in encode_chunks(list(seen)) for row in decode_chunk(part)]
    assert again == list(seen)
    assert max(seen, key=lambda one: (one[1].lease_counter, one[1].seen_at), default=None) in (*seen, None)


def _sighting_row(junk: Junk) -> tuple[Any, ...]:
    good = (junk.pick(KEYS), junk.byte(), junk.pick((None, "w")), 1_769_846_400_000 + junk.byte())
    return tuple(value if junk.below(8) else junk.json() for value in good)


def _compressed(text: str) -> bytes:
    import zlib

    return zlib.compress(text.encode(errors="replace"), 1)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (deaggregation, lease_rows, tick_plans, worker_items, settings, sightings)
}
