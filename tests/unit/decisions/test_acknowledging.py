"""What becomes of records that were handed out: each sentence of the pull API's contract, on the value alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.acknowledging import Acknowledging, Held

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ACK_WAIT = 300 * SECOND


def handed_out(*keys: str, now: datetime = NOW) -> Acknowledging:
    """Records 0, 1, ... of these keys, all out for the first time."""
    state = Acknowledging()
    for number, key in enumerate(keys):
        state = state.hand_out(number, key, now + ACK_WAIT)
    return state


def acked(state: Acknowledging, number: int, attempt: int = 1) -> Acknowledging:
    after = state.ack(number, attempt)
    assert after is not None
    return after


def naked(state: Acknowledging, number: int, attempt: int = 1, at: datetime = NOW) -> Acknowledging:
    after = state.nak(number, attempt, at)
    assert after is not None
    return after


def test_an_ack_is_of_one_record_alone() -> None:
    state = acked(handed_out("a", "b", "c"), 2)
    assert state.finished.length == 0
    assert list(state.out) == [0, 1]


def test_the_checkpoint_is_the_longest_finished_prefix() -> None:
    state = acked(acked(acked(handed_out("a", "b", "c", "d"), 2), 0), 1)
    assert state.finished.length == 3


def test_an_ack_that_is_made_twice_changes_nothing() -> None:
    assert acked(handed_out("a"), 0).ack(0, 1) is None


def test_nak_brings_it_again_after_the_delay() -> None:
    state = naked(handed_out("a", "b"), 0, at=NOW + 5 * SECOND)
    assert state.come_again(NOW + 4 * SECOND) == (state, ())
    state, numbers = state.come_again(NOW + 5 * SECOND)
    assert numbers == (0,)
    state = state.hand_out(0, "a", NOW + ACK_WAIT)
    assert state.is_out(0, attempt=2)
    assert not state.is_out(0, attempt=1)


def test_later_records_of_its_key_that_are_out_are_void_and_come_again_after_it() -> None:
    state = naked(handed_out("a", "b", "a", "a"), 0)
    assert list(state.out) == [1]
    assert state.ack(2, 1) is None
    assert state.come_again(NOW)[1] == (0, 2, 3)


def test_earlier_records_of_its_key_stay_out() -> None:
    state = naked(handed_out("a", "a", "a"), 1)
    assert list(state.out) == [0]
    assert state.come_again(NOW)[1] == (1, 2)


def test_new_records_of_a_key_that_waits_wait_behind_it() -> None:
    state = naked(handed_out("a"), 0, at=NOW + SECOND).hold(1, "a")
    assert state.held == {"a": Held(NOW + SECOND, (0, 1))}


def test_what_waits_of_one_key_leaves_what_waits_of_another() -> None:
    state = naked(naked(handed_out("a", "b"), 0, at=NOW + SECOND), 1, at=NOW + SECOND).hold(2, "a")
    assert state.held == {"a": Held(NOW + SECOND, (0, 2)), "b": Held(NOW + SECOND, (1,))}


def test_attempts_are_known_of_what_has_been_out_and_is_not_now() -> None:
    state = naked(naked(handed_out("a", "a", "b"), 0), 2)
    assert state.attempts == {0: 1, 1: 1, 2: 1}
    state, _ = state.come_again(NOW)
    assert state.hand_out(0, "a", NOW + ACK_WAIT).attempts == {1: 1, 2: 1}


def test_it_is_idle_when_nothing_is_out_nor_waits() -> None:
    assert Acknowledging().is_idle
    assert not handed_out("a").is_idle
    assert not naked(handed_out("a"), 0).is_idle
    assert acked(handed_out("a"), 0).is_idle


def test_a_nak_of_an_earlier_record_takes_those_that_wait_with_it() -> None:
    state = naked(naked(handed_out("a", "a"), 1, at=NOW + SECOND), 0, at=NOW + 9 * SECOND)
    assert state.come_again(NOW + SECOND)[1] == ()
    assert state.come_again(NOW + 9 * SECOND)[1] == (0, 1)


def test_a_record_that_is_forgotten_comes_again_after_ack_wait() -> None:
    state, forgotten = handed_out("a", "b").forget(NOW + ACK_WAIT)
    assert forgotten == (0, 1)
    assert state.come_again(NOW + ACK_WAIT)[1] == (0, 1)


def test_before_ack_wait_is_over_nothing_is_forgotten() -> None:
    state = handed_out("a")
    assert state.forget(NOW + ACK_WAIT - SECOND) == (state, ())


def test_in_progress_begins_ack_wait_anew() -> None:
    state = handed_out("a", "b").in_progress(0, 1, NOW + SECOND + ACK_WAIT)
    assert state is not None
    assert state.next_at == NOW + ACK_WAIT  # that of b
    after, forgotten = state.forget(NOW + ACK_WAIT)
    assert forgotten == (1,)
    assert after.is_out(0, 1)


def test_a_nak_of_an_earlier_record_brings_none_of_its_key_sooner() -> None:
    """What comes later of a key comes after it: so the latest of their moments is that of all."""
    state = naked(naked(handed_out("a", "a"), 1, at=NOW + 9 * SECOND), 0, at=NOW)
    assert state.come_again(NOW + 8 * SECOND)[1] == ()
    assert state.come_again(NOW + 9 * SECOND)[1] == (0, 1)


def test_a_void_delivery_can_neither_be_nakked_nor_kept_in_progress() -> None:
    state = naked(handed_out("a"), 0)
    assert state.nak(0, 1, NOW) is None
    assert state.in_progress(0, 1, NOW) is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["out", "ack", "nak", "wait"]), st.integers(0, 7), st.integers(0, 400)),
    max_size=60,
)


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=8), STEPS)
def test_nothing_is_ever_lost_and_a_key_is_in_order(
    keys: list[str], steps: list[tuple[str, int, int]]
) -> None:
    """Each record is new, out, waiting or done; and what is handed out of a key is never before one that waits."""
    state, now, ready = Acknowledging(), NOW, list(range(len(keys)))
    for step, which, seconds in steps:
        if step == "wait":
            now += seconds * SECOND
            state, _ = state.forget(now)
            state, again = state.come_again(now)
            ready = [*again, *ready]
        elif step == "out" and ready:
            number = ready.pop(0)
            key = keys[number]
            state = (
                state.hold(number, key) if key in state.held else state.hand_out(number, key, now + ACK_WAIT)
            )
        elif state.out:
            number = sorted(state.out)[which % len(state.out)]
            attempt = state.out[number].attempt
            after = (
                state.ack(number, attempt)
                if step == "ack"
                else state.nak(number, attempt, now + seconds * SECOND)
            )
            state = after or state
        waiting = [number for held in state.held.values() for number in held.numbers]
        done = [number for number in range(len(keys)) if number in state.finished]
        assert sorted([*ready, *state.out, *waiting, *done]) == list(range(len(keys)))
        for number, out in state.out.items():
            assert all(
                number < later for later in (state.held[out.key].numbers if out.key in state.held else ())
            )
