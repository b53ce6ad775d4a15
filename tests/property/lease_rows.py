"""Hypothesis strategies: leases, rows (KCL's, other entities' and broken ones), and writes for them.

Keys, owners and counters come from small sets, so that a write often meets the row it was made for, or nearly.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from sublet.protocol import lease_attributes as attributes
from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint, Sentinel
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.handler_failure import ERROR_LENGTH, HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import AttemptedRecords, AttributeValue, Lease, Position, QuietUntil
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.protocol.write_notes import with_ahead, with_failure, with_lag

LEASE_KEY = "shardId-000000000000"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

owners = st.sampled_from([None, "app-lambda-0", "app-lambda-1", "10.0.0.1:java"])
moments = st.integers(0, 4_000_000_000_000).map(lambda millis: EPOCH + timedelta(milliseconds=millis))
stream_keys = st.builds(
    StreamKey,
    st.sampled_from(["123456789012", "000000000000"]),
    st.text("aZ0_.-", min_size=1, max_size=128),
    st.integers(1, 2_000_000_000),
)
shard_ids = st.integers(0, 9).map(lambda n: f"shardId-{n:012}")
sequence_numbers = st.one_of(
    st.integers(0, 120).map(str),  # lengths 1 to 3, often equal
    st.integers(0, 3).map(lambda n: str(496 * 10**53 + n)),
    st.integers(0, 10**129 - 1).map(str),
)
numeric_checkpoints = st.builds(Checkpoint, sequence_numbers, st.integers(0, 3))
checkpoints = st.one_of(numeric_checkpoints, st.sampled_from(Sentinel).map(lambda s: Checkpoint(s.value)))
hash_key_ranges = st.tuples(st.integers(0, HASH_KEY_MAX), st.integers(0, HASH_KEY_MAX)).map(
    lambda ends: HashKeyRange(min(ends), max(ends))
)
positions = st.one_of(
    checkpoints.map(Position),
    st.tuples(st.sampled_from([AT_TIMESTAMP, LATEST]), moments).map(lambda start: Position(*start)),
)
failures = st.builds(
    HandlerFailure, st.text("AZaz09_.", min_size=1, max_size=ERROR_LENGTH), st.integers(1, 10**9 - 1), moments
)
lag_reports = st.builds(
    LagReport,
    moments,
    st.none() | st.integers(0, 10**9).map(lambda millis: timedelta(milliseconds=millis)),
    st.none() | moments,
    st.none() | st.integers(0, 10**7),
    st.none() | st.integers(0, 10**6).map(lambda hundredths: hundredths / 100),
)
seconds = st.integers(0, 10**7).map(lambda number: timedelta(seconds=number))
lag_histories = st.builds(
    lambda began, seen: tuple(
        LagSeen(began + n * timedelta(minutes=1), lag, arrived) for n, (lag, arrived) in enumerate(seen)
    ),
    st.integers(0, 4 * 10**9).map(lambda epoch: EPOCH + timedelta(seconds=epoch)),
    st.lists(st.tuples(st.none() | seconds, st.none() | moments), max_size=10),
)
quiets = st.builds(QuietUntil, moments, positions)
attribute_values: st.SearchStrategy[AttributeValue] = st.one_of(
    st.builds(lambda s: {"S": s}, st.text("aZ0-é中", max_size=5)),
    st.builds(lambda n: {"N": str(n)}, st.integers(-5, 5)),
    st.builds(lambda b: {"B": b}, st.binary(min_size=1, max_size=5)),
    st.builds(lambda s: {"SS": sorted(s)}, st.sets(st.text("abc", min_size=1), min_size=1, max_size=3)),
    st.builds(lambda b: {"BOOL": b}, st.booleans()),
    st.just({"NULL": True}),
)
ATTRIBUTES = (
    attributes.LEASE_OWNER,
    attributes.LEASE_COUNTER,
    attributes.OWNER_SWITCHES,
    attributes.CHECKPOINT,
    attributes.SUB_SEQUENCE_NUMBER,
    attributes.PARENTS,
    attributes.ENDING_HASH_KEY,
    attributes.START_AT,
    attributes.QUIET,
    attributes.LAG,
    attributes.SEEN,
    attributes.CHECKPOINT_OWNER,
    attributes.ENTITY_TYPE,
)
unknown = st.dictionaries(st.sampled_from(["streamName", "x", "theirs"]), attribute_values, max_size=2)


def further(base: Checkpoint) -> st.SearchStrategy[Checkpoint]:
    """Beyond it, by little or much, or within the same record."""
    number = int(base.sequence_number) if base.is_sequence_number else 0
    within = base.sub_sequence_number + 1 if base.is_sequence_number else 0
    return st.one_of(
        st.builds(Checkpoint, st.integers(1, 99).map(lambda n: str(number + n)), st.integers(0, 3)),
        st.builds(Checkpoint, st.integers(1, 10**30).map(lambda n: str(number + n)), st.integers(0, 10**6)),
        st.builds(Checkpoint, st.just(str(number)), st.integers(within, within + 3)),
    )


@st.composite
def finished_aheads(draw: st.DrawFn, base: Checkpoint) -> FinishedAhead:
    """Beyond `base`, which is not SHARD_END, in at least one lane."""
    lanes = draw(st.lists(st.none() | further(base), min_size=1, max_size=10))
    first = lanes[0] or draw(further(base))
    return FinishedAhead((first, *lanes[1:]), draw(st.booleans()))


@st.composite
def leases(draw: st.DrawFn) -> Lease:
    """Any lease that a row can hold: whole milliseconds, and a pending state only with a pending checkpoint."""
    pending, position = draw(st.none() | checkpoints), draw(positions)
    checkpoint = position.checkpoint
    ahead = None if checkpoint.is_shard_end else draw(st.none() | finished_aheads(checkpoint))
    tried = draw(st.none() | st.builds(AttemptedRecords, numeric_checkpoints, st.integers(1, 10)))
    return Lease(
        lease_key=LEASE_KEY,
        checkpoint=checkpoint,
        lease_counter=draw(st.integers(0, 3)),
        lease_owner=draw(owners),
        owner_switches_since_checkpoint=draw(st.integers(0, 2)),
        parent_shard_ids=draw(st.frozensets(shard_ids, max_size=2)),
        child_shard_ids=draw(st.frozensets(shard_ids, max_size=2)),
        hash_key_range=draw(st.none() | hash_key_ranges),
        start_at=position.start_at or draw(st.none() | moments),
        caught_up_at=draw(st.none() | moments),
        quiet=draw(st.none() | quiets | st.builds(QuietUntil, moments, st.just(position))),
        lag_report=draw(st.none() | lag_reports),
        lag_history=draw(lag_histories),
        holder=draw(st.none() | st.sampled_from(["item-1/a", "item-1/b"])),
        attempts=draw(st.integers(0, 3)),
        tried=tried,
        failing=draw(st.none() | failures),
        unanswered_since=draw(st.none() | moments),
        noted_ahead=ahead,
        noted_ahead_counter=None if ahead is None else draw(st.integers(0, 3)),
        checkpoint_owner=draw(owners),
        pending_checkpoint=pending,
        pending_checkpoint_state=draw(st.none() | st.binary(min_size=1, max_size=9)) if pending else None,
        throughput_kbps=draw(st.none() | st.integers(0, 2000).map(lambda n: n / 8)),
        other=draw(unknown),
    )


@st.composite
def leases_of_several(draw: st.DrawFn) -> Lease:
    """Any lease of an application of several streams."""
    lease, stream = draw(leases()), draw(stream_keys)
    return replace(
        lease,
        lease_key=in_stream(stream, lease.lease_key),
        parent_shard_ids=frozenset(in_stream(stream, each) for each in lease.parent_shard_ids),
        child_shard_ids=frozenset(in_stream(stream, each) for each in lease.child_shard_ids),
        other={name: value for name, value in lease.other.items() if name != attributes.STREAM_NAME},
    )


@st.composite
def rows(draw: st.DrawFn) -> dict[str, AttributeValue]:
    """A lease's row with some attributes dropped or of any type and value."""
    row = encode_row(draw(leases()))
    for name in draw(st.lists(st.sampled_from(ATTRIBUTES), max_size=2)):
        if draw(st.booleans()):
            row.pop(name, None)
        else:
            row[name] = draw(attribute_values)
    return row


@st.composite
def lease_writes(draw: st.DrawFn) -> LeaseWrite:
    """Any kind of write, for any lease."""
    lease = draw(leases())
    ahead = draw(st.none() | finished_aheads(TRIM_HORIZON))
    quiet = draw(st.none() | quiets | st.builds(QuietUntil, moments, st.just(lease.position)))
    made = [
        writes.create(lease),
        writes.acquire(lease.fence, "app-lambda-0", "item-2/c"),
        writes.heartbeat(lease, quiet=quiet),
        writes.pin(lease, draw(moments)),
        writes.checkpoint(lease, draw(numeric_checkpoints), draw(st.none() | moments)),
        writes.late_checkpoint(lease, draw(numeric_checkpoints)),
        writes.set_children(lease, draw(st.frozensets(shard_ids, max_size=2))),
        writes.end(lease),
        writes.release(lease, draw(st.none() | moments), quiet=quiet),
        writes.hand_over(lease),
        writes.delete(lease),
        writes.seek(lease, draw(positions)),
        *(
            with_ahead(write, lease, ahead)
            for write in (
                writes.heartbeat(lease),
                writes.checkpoint(lease, draw(numeric_checkpoints)),
                writes.release(lease),
            )
        ),
        with_lag(writes.heartbeat(lease), lease, draw(lag_reports), draw(lag_histories)),
        with_lag(writes.checkpoint(lease, draw(numeric_checkpoints)), lease, draw(lag_reports), draw(lag_histories)),
        with_lag(writes.release(lease), lease, draw(lag_reports), draw(lag_histories)),
        *(
            with_lag(
                with_failure(with_ahead(write, lease, ahead), lease, draw(st.none() | failures)),
                lease,
                draw(lag_reports),
                draw(lag_histories),
            )
            for write in (writes.heartbeat(lease), writes.checkpoint(lease, draw(numeric_checkpoints)))
        ),
    ]
    return draw(st.sampled_from(made))
