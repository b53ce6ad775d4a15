"""The text of what is finished beyond a checkpoint, both ways; and that a stale note in a row is never believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sublet.protocol import lease_attributes as attributes
from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, ahead_text, joined, lane_of, read_ahead_text
from sublet.protocol.lease import AttributeValue, Lease, Position
from sublet.protocol.lease_attributes import bytes_of, number, text
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import LeaseWrite, apply_to
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE
from sublet.protocol.write_notes import with_ahead
from sublet.testing.memory.clock import BEGINNING

from tests.property.lease_rows import finished_aheads, leases, moments, numeric_checkpoints

starts = st.one_of(
    numeric_checkpoints.map(Position),
    st.just(Position(TRIM_HORIZON)),
    st.builds(Position, st.sampled_from((LATEST, AT_TIMESTAMP)), st.none() | moments),
)


def record(key: str, number: int, sub: int = 0) -> UserRecord:
    return UserRecord(b"", key, sub, StreamRecord(str(number), b"", key, BEGINNING))


@given(st.data(), starts, starts, st.integers(0, 10**9))
def test_finished_ahead_text_round_trips_for_its_own_position_alone(
    data: st.DataObject, position: Position, other: Position, counter: int
) -> None:
    ahead = data.draw(finished_aheads(position.checkpoint))
    made = ahead_text(ahead, counter, *position)
    assert read_ahead_text(made, *position) == (ahead, counter)
    assert (read_ahead_text(made, *other) is None) == (other != position)


@given(st.data(), starts, st.integers(0, 9), st.characters())
def test_a_text_that_is_damaged_is_none_or_of_the_same_form(
    data: st.DataObject, position: Position, counter: int, noise: str
) -> None:
    made = ahead_text(data.draw(finished_aheads(position.checkpoint)), counter, *position)
    at = data.draw(st.integers(0, len(made)))
    for damaged in (made[:at], made[at:], made[:at] + noise + made[at:], noise):
        found = read_ahead_text(damaged, *position)
        assert found is None or any(found[0].up_to)


@pytest.mark.parametrize(
    "garbage",
    ["", "7", "7@50", "7@50/u/1/", "7@50/u/1/,,", "7@50/x/1/1", "-7@50/u/1/1", "7@50/u//1", "7@50/u/1/1,A"],
)
def test_finished_ahead_text_of_another_form_is_ignored(garbage: str) -> None:
    assert read_ahead_text(garbage, Checkpoint("50"), None) is None


def test_a_text_as_it_stands_in_a_row() -> None:
    ahead = FinishedAhead((Checkpoint("1036"), None, Checkpoint("1000", 40), Checkpoint("1037")))
    assert ahead_text(ahead, 7, Checkpoint("999", 2), None) == "7@999:2/u/1/10,,0.14,11"
    assert ahead_text(ahead._replace(as_put=True), 7, AT_TIMESTAMP, BEGINNING).startswith("7@AT_TIMESTAMP+1")


@given(st.data(), st.text("abc", max_size=3), st.integers(0, 200), st.integers(0, 3))
def test_finished_ahead_covers_records_up_to_its_lanes_position(
    data: st.DataObject, key: str, at: int, sub: int
) -> None:
    ahead = data.draw(finished_aheads(TRIM_HORIZON))
    to = ahead.up_to[lane_of(key, len(ahead.up_to))]
    assert ahead.covers(record(key, at, sub)) == (to is not None and Checkpoint(str(at), sub) <= to)


@given(st.data(), numeric_checkpoints)
def test_beyond_a_checkpoint_it_says_the_same_or_nothing(data: st.DataObject, to: Checkpoint) -> None:
    ahead = data.draw(finished_aheads(TRIM_HORIZON))
    beyond = ahead.beyond(to)
    left = [] if beyond is None else [lane for lane in beyond.up_to if lane is not None]
    assert left == [lane for lane in ahead.up_to if lane is not None and lane > to]
    assert beyond is None or (len(beyond.up_to), beyond.as_put) == (len(ahead.up_to), ahead.as_put)


@given(st.data(), st.text("abcdef", max_size=2), st.integers(0, 200))
def test_joined_finished_ahead_covers_the_union_of_two_of_a_kind(data: st.DataObject, key: str, at: int) -> None:
    one = data.draw(finished_aheads(TRIM_HORIZON))
    other = data.draw(finished_aheads(TRIM_HORIZON))
    both, each = joined(one, other), record(key, at)
    if len(one.up_to) == len(other.up_to) and one.as_put == other.as_put:
        assert both.covers(each) == (one.covers(each) or other.covers(each))
    else:
        assert both == other
    assert joined(None, one) == one
    assert joined(one, FinishedAhead((None, None, None))) == one or len(one.up_to) == 3


# In a row


LONG = replace(
    Lease("shardId-000000000000", Checkpoint("9" * 56, 12_345)),
    lease_counter=123_456,
    lease_owner="orders-audit-production-lambda-0",
    holder="0123456789abcdef/01234567-89ab-cdef-0123-456789abcdef:1234",
    holder_counter=123_456,
    parent_shard_ids=frozenset({"shardId-000000000001", "shardId-000000000002"}),
    hash_key_range=FULL_RANGE,
    caught_up_at=BEGINNING,
    throughput_kbps=1234.5,
    crashes=1,
)
"""If both are of the same kind, as in most rows of ours."""


@given(st.data(), leases(), st.sampled_from((writes.heartbeat, writes.release)))
def test_a_row_has_it_only_while_it_is_smaller_than_a_kilobyte(data: st.DataObject, lease: Lease, make: object) -> None:
    lease = replace(lease, noted_ahead=None, noted_ahead_counter=None)
    ahead = None if lease.is_ended else data.draw(finished_aheads(lease.checkpoint))
    assert callable(make)
    write = with_ahead(make(lease), lease, ahead)
    after = apply_to(write, encode_row(lease))
    assert after is not None
    assert attributes.AHEAD not in after or bytes_of(after) <= 1000


def test_finished_ahead_of_ten_lanes_is_cut_to_fit_into_the_row() -> None:
    """Sequence numbers of one shard minutes apart, with Kinesis' distance of 2**91."""
    at = int(LONG.checkpoint.sequence_number)
    apart = tuple(Checkpoint(str(at + n * 2**88 + n)) for n in range(1, 11))
    row = apply_to(with_ahead(writes.heartbeat(LONG), LONG, FinishedAhead(apart)), encode_row(LONG))
    lease = decode_row(row or {})
    assert isinstance(lease, Lease)
    assert lease.noted_ahead == FinishedAhead(apart)
    longer = replace(LONG, other={"team": {"S": "x" * 180}})
    row = apply_to(with_ahead(writes.heartbeat(longer), longer, FinishedAhead(apart)), encode_row(longer))
    lease = decode_row(row or {})
    assert isinstance(lease, Lease)
    assert lease.noted_ahead is not None
    kept = [to for to in lease.noted_ahead.up_to if to is not None]
    assert 1 <= len(kept) < 10
    assert set(kept) <= set(apart)


# The writers


ALL = FinishedAhead((Checkpoint("9" * 60), Checkpoint("9" * 60)))
"""For ever, in two lanes: a reader that believes it skips everything."""


UNOWNED = replace(LONG, lease_owner=None, holder=None, holder_counter=None, crashes=0)
PLACES = [Checkpoint(str(n)) for n in (10, 20, 30)]


class AnyHistory(RuleBasedStateMachine):
    """One row: this version, the previous one, Java, and operators, in any order. At any moment a worker of this
    version may acquire the lease and believe the note: only if this version noted it with the last write, and only at
    the same position. An operator who puts the checkpoint back before the next write has undone the move.
    """

    def __init__(self) -> None:
        super().__init__()
        self.row: dict[str, AttributeValue] = {}
        self.noted_at: Position | None = None
        """The row's position if the last write noted something; None if it did not."""

    @initialize(at=st.sampled_from([TRIM_HORIZON, *PLACES]))
    def begins(self, at: Checkpoint) -> None:
        self.row = encode_row(replace(UNOWNED, checkpoint=at, lease_counter=0))

    @property
    def lease(self) -> Lease:
        lease = decode_row(self.row)
        assert isinstance(lease, Lease)
        return lease

    def apply(self, write: LeaseWrite) -> bool:
        after = apply_to(write, self.row)
        self.row = after if after is not None else self.row
        return after is not None

    def voids(self) -> None:
        self.noted_at = None

    @property
    def is_held(self) -> bool:
        return self.lease.lease_owner is not None

    # This version

    @rule(who=st.sampled_from(["a", "b"]))
    def acquire(self, who: str) -> None:
        assert self.apply(writes.acquire(self.lease.fence, who, f"item/{who}"))
        if self.lease.finished_ahead is None:
            self.voids()

    @precondition(lambda self: self.is_held)
    @rule(releases=st.booleans())
    def note(self, releases: bool) -> None:
        lease = self.lease
        made = writes.release(lease) if releases else writes.heartbeat(lease)
        assert self.apply(with_ahead(made, lease, ALL))
        self.noted_at = self.lease.position

    @precondition(lambda self: self.is_held)
    @rule(to=st.sampled_from(PLACES), knows=st.booleans())
    def checkpoint(self, to: Checkpoint, knows: bool) -> None:
        lease = self.lease
        if self.apply(with_ahead(writes.checkpoint(lease, to), lease, ALL if knows else None)):
            self.noted_at = self.lease.position if knows else None

    @precondition(lambda self: self.is_held)
    @rule(to=st.sampled_from(PLACES))
    def note_where_another_has_moved(self, to: Checkpoint) -> None:
        """Its owner does not know of the move yet."""
        known = self.lease
        self.move(to)
        moved = self.lease.position != known.position
        written = self.apply(with_ahead(writes.heartbeat(known), known, ALL))
        assert written != moved
        if written:
            self.noted_at = known.position

    # Writers that do not know the attribute, or have nothing to note

    @precondition(lambda self: self.is_held)
    @rule(what=st.sampled_from(["heartbeat", "release", "attempts", "nothing"]))
    def write_as_before(self, what: str) -> None:
        lease = self.lease
        made = {
            "heartbeat": writes.heartbeat(lease),
            "release": writes.release(lease),
            "attempts": writes.heartbeat(lease, attempts=2),
            "nothing": with_ahead(writes.heartbeat(lease), lease, None),
        }[what]
        assert self.apply(made)
        self.voids()

    @precondition(lambda self: self.is_held)
    @rule(to=st.sampled_from(PLACES), is_late=st.booleans(), is_before=st.booleans(), is_put_back=st.booleans())
    def checkpoint_as_before(self, to: Checkpoint, is_late: bool, is_before: bool, is_put_back: bool) -> None:
        """By a version that does not know the attribute, or this one; and an operator may want all of it again. A late
        one leaves the counter as it is.
        """
        stood = self.lease.checkpoint
        made = writes.late_checkpoint(self.lease, to) if is_late else writes.checkpoint(self.lease, to)
        removes = tuple(name for name in made.removes if name != attributes.AHEAD or not is_before)
        if self.apply(replace(made, removes=removes)):
            self.voids()
        if is_put_back:
            self.move(stood)

    @rule(to=st.none() | st.sampled_from(PLACES), takes=st.booleans())
    def write_as_java(self, to: Checkpoint | None, takes: bool) -> None:
        changed = {attributes.LEASE_COUNTER: number(self.lease.lease_counter + 1)}
        if takes:
            changed[attributes.LEASE_OWNER] = text("java")
        if to is not None:
            changed[attributes.CHECKPOINT] = text(to.sequence_number)
        self.row = {**self.row, **changed}
        self.voids()

    # An operator

    @rule(to=st.sampled_from([TRIM_HORIZON, *PLACES]))
    def move(self, to: Checkpoint) -> None:
        self.row = {**self.row, attributes.CHECKPOINT: text(to.sequence_number)}

    @invariant()
    def is_believed_only_where_it_is_true(self) -> None:
        if not self.row:
            return
        row = apply_to(writes.acquire(self.lease.fence, "somebody", "item/somebody"), self.row)
        taken = decode_row(row or {})
        assert isinstance(taken, Lease)
        if taken.finished_ahead is not None:
            assert self.noted_at == taken.position


TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
TestAnyHistory.settings = settings(stateful_step_count=12)


def test_an_end_takes_it_away() -> None:
    lease = replace(LONG, noted_ahead=ALL, noted_ahead_counter=LONG.lease_counter)
    after = apply_to(with_ahead(writes.end(lease), lease, ALL), encode_row(lease))
    assert after is not None
    assert after[attributes.CHECKPOINT] == text(SHARD_END.sequence_number)
    assert after.keys().isdisjoint({attributes.AHEAD, attributes.ATTEMPTS})
