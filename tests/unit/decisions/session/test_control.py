"""Which leases are paused, and how a command changes the current control."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_other
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.session.control import (
    check_owners,
    held,
    is_of_another_client,
    pause_of,
    paused,
    pausing,
    resuming,
    without,
)
from sublet.errors import ControlRefused
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON
from sublet.protocol.control import NO_CONTROL, Control, Order, Pause
from sublet.protocol.lease import Lease
from sublet.testing.memory.clock import BEGINNING

MINUTE = timedelta(minutes=1)
NOW = BEGINNING + timedelta(days=1)
FOREVER = Pause(Order.PAUSE, NOW, "anna@desk")
FOR_A_MINUTE = with_other(FOREVER, until=NOW + MINUTE)
LEASES = [Lease(f"shardId-{n}", TRIM_HORIZON) for n in range(3)]
KEYS = [lease.lease_key for lease in LEASES]


def test_empty_control_pauses_nothing() -> None:
    assert paused(NO_CONTROL, LEASES, NOW) == {}


def test_pause_of_the_application_covers_later_shards() -> None:
    control = pausing(NO_CONTROL, FOREVER)
    assert paused(control, LEASES, NOW) == dict.fromkeys(KEYS, FOREVER)
    assert pause_of(control, "shardId-of-tomorrow", NOW) == FOREVER


def test_a_shard_s_pause_is_its_own() -> None:
    assert list(paused(pausing(NO_CONTROL, FOREVER, ["shardId-1"]), LEASES, NOW)) == ["shardId-1"]


def test_an_ended_lease_is_not_paused() -> None:
    ended = replace(LEASES[0], checkpoint=SHARD_END)
    assert paused(pausing(NO_CONTROL, FOREVER), [ended], NOW) == {}


@pytest.mark.parametrize(("after", "is_paused"), [(MINUTE - timedelta.resolution, True), (MINUTE, False)])
def test_a_pause_ends_by_itself(after: timedelta, is_paused: bool) -> None:
    for control in (pausing(NO_CONTROL, FOR_A_MINUTE), pausing(NO_CONTROL, FOR_A_MINUTE, ["shardId-1"])):
        assert (pause_of(control, "shardId-1", NOW + after) is not None) is is_paused


def test_a_shard_stays_paused_beyond_the_application_s_pause() -> None:
    control = pausing(pausing(NO_CONTROL, FOREVER, ["shardId-1"]), FOR_A_MINUTE)
    assert list(paused(control, LEASES, NOW)) == KEYS
    assert list(paused(control, LEASES, NOW + MINUTE)) == ["shardId-1"]


def test_resume_ends_all_pauses() -> None:
    control = pausing(pausing(Control(round=3), FOREVER, ["shardId-1"]), FOREVER)
    assert resuming(control, NOW) == Control(round=3)


def test_resume_of_one_shard_leaves_the_others() -> None:
    control = pausing(NO_CONTROL, FOREVER, ["shardId-1", "shardId-2"])
    assert list(paused(resuming(control, NOW, ["shardId-1"]), LEASES, NOW)) == ["shardId-2"]


def test_resume_of_one_shard_is_refused_while_the_application_is_paused() -> None:
    with pytest.raises(ControlRefused, match="whole application"):
        resuming(pausing(NO_CONTROL, FOREVER), NOW, ["shardId-1"])
    past = pausing(pausing(NO_CONTROL, FOR_A_MINUTE), FOREVER, ["shardId-1"])
    assert resuming(past, NOW + MINUTE, ["shardId-1"]) == NO_CONTROL


def test_a_shard_that_is_not_paused_cannot_be_resumed() -> None:
    control = pausing(NO_CONTROL, FOREVER, ["shardId-1"])
    with pytest.raises(ControlRefused, match=r"^shardId-2: not paused, and nothing was changed; paused: shardId-1$"):
        resuming(control, NOW, ["shardId-2", "shardId-1"])


def test_a_request_to_release_does_not_shorten_a_pause() -> None:
    release = Pause(Order.RELEASE, NOW, "bo@desk", NOW + MINUTE)
    control = pausing(pausing(NO_CONTROL, FOREVER, ["shardId-1"]), release, ["shardId-1", "shardId-2"])
    assert control.leases == {"shardId-1": FOREVER, "shardId-2": release}
    assert without(control, release, ["shardId-1", "shardId-2"]).leases == {"shardId-1": FOREVER}


def test_release_request_with_the_later_end_counts() -> None:
    for_a_minute = Pause(Order.RELEASE, NOW, "bo@desk", NOW + MINUTE)
    for_two, forever = (with_other(for_a_minute, until=until) for until in (NOW + 2 * MINUTE, None))
    for first, second, counts in [
        (for_a_minute, for_two, for_two),
        (for_two, for_a_minute, for_two),
        (forever, for_two, forever),
    ]:
        both = pausing(pausing(NO_CONTROL, first, ["shardId-1"]), second, ["shardId-1"])
        assert both.leases == {"shardId-1": counts}


def test_pauses_that_are_over_are_forgotten() -> None:
    control = pausing(NO_CONTROL, FOR_A_MINUTE, ["shardId-1"])
    later = with_other(FOREVER, since=NOW + MINUTE)
    assert pausing(control, later, ["shardId-2"]).leases == {"shardId-2": later}


KEY_SETS = st.sets(st.sampled_from(KEYS))
PAUSES = st.builds(
    lambda minutes: with_other(FOREVER, until=None if minutes is None else NOW + minutes * MINUTE),
    st.none() | st.integers(1, 3),
)
STEPS = st.lists(st.tuples(PAUSES, KEY_SETS), max_size=6)


@given(STEPS, st.integers(0, 4))
def test_last_pause_of_a_shard_and_of_the_application_counts(steps: list[tuple[Pause, set[str]]], minutes: int) -> None:
    """Against a model: the last pause of each shard, and the last of the application."""
    control, whole, single = NO_CONTROL, None, dict[str, Pause]()
    for pause, keys in steps:
        control = pausing(control, pause, keys)
        if keys:
            single |= dict.fromkeys(keys, pause)
        else:
            whole = pause
    at = NOW + minutes * MINUTE
    expected = {
        key
        for key in KEYS
        if any(each and (each.until is None or at < each.until) for each in (whole, single.get(key)))
    }
    assert set(paused(control, LEASES, at)) == expected
    assert paused(resuming(control, at), LEASES, at) == {}


OURS = replace(LEASES[0], lease_owner="app-lambda-0", holder="item/1", holder_counter=4, lease_counter=4)
JAVA_S = replace(LEASES[1], lease_owner="java-1", lease_counter=9)
TAKEN_BY_JAVA = replace(OURS, lease_key="shardId-2", lease_owner="java-2", lease_counter=5)


@pytest.mark.parametrize(
    ("lease", "is_theirs"), [(OURS, False), (JAVA_S, True), (TAKEN_BY_JAVA, True), (LEASES[0], False)]
)
def test_lease_without_our_holder_is_of_another_client(lease: Lease, is_theirs: bool) -> None:
    assert is_of_another_client(lease) is is_theirs


def test_pause_and_drain_are_refused_for_shards_that_java_holds() -> None:
    check_owners([OURS], Order.PAUSE)
    with pytest.raises(ControlRefused, match="shardId-1 by java-1, shardId-2 by java-2, which no drain"):
        check_owners([OURS, JAVA_S, TAKEN_BY_JAVA], Order.DRAIN)


def test_a_silent_owner_holds_nothing() -> None:
    sightings = {JAVA_S.lease_key: Sighting(9, "java-1", NOW)}
    assert held([OURS, JAVA_S, LEASES[2]], sightings, NOW + MINUTE, MINUTE) == (OURS, JAVA_S)
    assert held([OURS, JAVA_S], sightings, NOW + MINUTE + timedelta.resolution, MINUTE) == (OURS,)
    ended = replace(OURS, checkpoint=SHARD_END)
    assert held([ended], {}, NOW, MINUTE) == ()
