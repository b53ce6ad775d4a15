"""Acknowledgements: each sentence of the pull API's contract, tested on the rules alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.pull.acknowledging import AcknowledgmentState

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ACK_WAIT = 300 * SECOND


def handed_out(*keys: str, now: datetime = NOW) -> AcknowledgmentState:
    """Records 0, 1, ... of these keys, all out for the first time."""
    state = AcknowledgmentState()
    for number, key in enumerate(keys):
        state.hand_out(number, key, now + ACK_WAIT)
    return state


def again(state: AcknowledgmentState, keys: str, at: datetime = NOW) -> list[int]:
    """The numbers of those that come again at once, in the order in which they are handed out."""
    state.look(at)
    numbers = []
    while (number := state.next_again()) is not None:
        numbers.append(number)
        state.hand_out(number, keys[number], at + ACK_WAIT)
    return numbers


def test_an_ack_is_of_one_record_alone() -> None:
    state = handed_out("a", "b", "c")
    assert state.ack(2, 1)
    assert state.finished == 0
    assert list(state.out) == [0, 1]


def test_the_checkpoint_is_the_longest_finished_prefix() -> None:
    state = handed_out("a", "b", "c", "d")
    assert [state.ack(number, 1) and state.finished for number in (2, 0, 1)] == [0, 1, 3]


def test_an_ack_that_is_made_twice_changes_nothing() -> None:
    state = handed_out("a")
    assert state.ack(0, 1)
    assert not state.ack(0, 1)
    assert state.finished == 1


def test_nak_brings_it_again_after_the_delay() -> None:
    state = handed_out("a", "b")
    assert state.nak(0, 1, NOW + 5 * SECOND)
    assert again(state, "ab", NOW + 4 * SECOND) == []
    assert again(state, "ab", NOW + 5 * SECOND) == [0]
    assert state.is_out(0, times=2)
    assert not state.is_out(0, times=1)


def test_nak_voids_later_records_of_its_key_and_redelivers_them_after_it() -> None:
    state = handed_out("a", "b", "a", "a")
    assert state.nak(0, 1, NOW)
    assert list(state.out) == [1]
    assert not state.ack(2, 1)
    assert again(state, "abaa") == [0, 2, 3]


def test_earlier_records_of_its_key_stay_out() -> None:
    state = handed_out("a", "a", "a")
    assert state.nak(1, 1, NOW)
    assert list(state.out) == [0]
    assert again(state, "aaa") == [1, 2]


def test_new_records_wait_behind_a_waiting_record_of_their_key() -> None:
    state = handed_out("a")
    assert state.nak(0, 1, NOW + SECOND)
    assert state.waits("a")
    state.wait(1, "a")
    assert again(state, "aa", NOW + SECOND) == [0, 1]


def test_a_key_that_waits_keeps_no_other_waiting() -> None:
    state = handed_out("a", "b")
    assert state.nak(0, 1, NOW + SECOND)
    assert state.nak(1, 1, NOW)
    state.wait(2, "a")
    assert again(state, "aba") == [1]
    assert again(state, "aba", NOW + SECOND) == [0, 2]


def test_redelivery_waits_again_after_a_nak_of_an_earlier_record_of_its_key() -> None:
    state = handed_out("a", "a", "b")
    assert state.nak(0, 1, NOW)
    state.look(NOW)
    assert state.next_again() == 0
    assert state.hand_out(0, "a", NOW + ACK_WAIT).times == 2
    assert state.next_again() == 1
    assert state.nak(0, 2, NOW + SECOND)
    assert state.next_again() is None
    assert again(state, "aab", NOW + SECOND) == [0, 1]


def test_nak_counts_an_attempt_of_its_own_record_only() -> None:
    """Else those behind a record that fails for ever would look as if they did too."""
    state = handed_out("a", "a", "b")
    assert state.nak(0, 1, NOW)
    assert state.nak(2, 1, NOW)
    assert again(state, "aab") == [0, 1, 2]
    assert {number: (out.times, out.attempt) for number, out in state.out.items()} == {
        0: (2, 2),
        1: (2, 1),
        2: (2, 2),
    }


def test_shard_is_in_order_unless_a_record_was_put_back() -> None:
    state, in_order = handed_out("a", "b"), []
    in_order.append(state.is_in_order)
    assert state.nak(0, 1, NOW)
    in_order.append(state.is_in_order)
    assert again(state, "ab") == [0]
    assert [*in_order, state.is_in_order] == [True, False, True]


def test_nak_of_an_earlier_record_delays_later_ones_of_its_key() -> None:
    state = handed_out("a", "a")
    assert state.nak(1, 1, NOW + SECOND)
    assert state.nak(0, 1, NOW + 9 * SECOND)
    assert again(state, "aa", NOW + SECOND) == []
    assert again(state, "aa", NOW + 9 * SECOND) == [0, 1]


def test_nak_of_an_earlier_record_brings_no_later_one_sooner() -> None:
    """What comes later of a key comes after it: so the latest of their moments is that of all."""
    state = handed_out("a", "a")
    assert state.nak(1, 1, NOW + 9 * SECOND)
    assert state.nak(0, 1, NOW)
    assert again(state, "aa", NOW + 8 * SECOND) == []
    assert again(state, "aa", NOW + 9 * SECOND) == [0, 1]


def test_a_record_that_is_forgotten_comes_again_after_ack_wait() -> None:
    state = handed_out("a", "b")
    assert state.look(NOW + ACK_WAIT) == [0, 1]
    assert again(state, "ab", NOW + ACK_WAIT) == [0, 1]


def test_record_stays_out_until_ack_wait_is_over() -> None:
    state = handed_out("a")
    assert state.look(NOW + ACK_WAIT - SECOND) == []
    assert state.is_out(0, 1)


def test_in_progress_restarts_ack_wait() -> None:
    state = handed_out("a", "b")
    assert state.in_progress(0, 1, NOW + SECOND + ACK_WAIT)
    assert state.next_at() == NOW + ACK_WAIT  # that of b
    assert state.look(NOW + ACK_WAIT) == [1]
    assert state.is_out(0, 1)


def test_a_void_delivery_can_neither_be_nakked_nor_kept_in_progress() -> None:
    state = handed_out("a")
    assert state.nak(0, 1, NOW)
    assert not state.nak(0, 1, NOW)
    assert not state.in_progress(0, 1, NOW)


def test_the_next_moment_is_the_first_at_which_something_comes_again() -> None:
    state = handed_out("a", "b", "c")
    assert state.nak(0, 1, NOW + 9 * SECOND)
    assert state.nak(1, 1, NOW + 5 * SECOND)
    assert state.next_at() == NOW + 5 * SECOND
    assert again(state, "abc", NOW + 5 * SECOND) == [1]
    assert state.next_at() == NOW + 9 * SECOND
    assert AcknowledgmentState().next_at() is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["out", "ack", "nak", "in progress", "wait", "mend"]),
        st.integers(0, 7),
        st.integers(0, 400),
    ),
    max_size=60,
)


class Shard:
    """Records 0, 1, ... of these keys, handed out as a queue does, and what was said of them."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.state = AcknowledgmentState()
        self.upcoming = 0
        self.now = NOW
        self.done: set[int] = set()
        self.put_back: dict[str, int] = {}
        """By key, the first that waits for its next delivery."""

    def step(self, what: str, which: int, seconds: int) -> None:
        if what == "wait":
            self.now += seconds * SECOND
        for number in self.state.look(self.now):
            self._is_put_back(number)
        if what == "out":
            self._hand_out()
        elif what == "mend":
            self.state.mend(self.upcoming, self.keys.__getitem__)
        elif self.state.out:
            number = sorted(self.state.out)[which % len(self.state.out)]
            self._say(what, number, self.state.out[number].times, seconds)

    def _hand_out(self) -> None:
        number = self.state.next_again()
        while number is None and self.upcoming < len(self.keys):
            key = self.keys[self.upcoming]
            if self.state.waits(key):
                self.state.wait(self.upcoming, key)
            else:
                number = self.upcoming
            self.upcoming += 1
        if number is not None:
            first = self.put_back.get(self.keys[number])
            assert first is None or number == first, "what is behind one that was put back comes before it"
            self.put_back.pop(self.keys[number], None)
            self.state.hand_out(number, self.keys[number], self.now + ACK_WAIT)

    def _say(self, what: str, number: int, times: int, seconds: int) -> None:
        if what == "ack":
            assert self.state.ack(number, times)
            self.done.add(number)
        elif what == "nak":
            assert self.state.nak(number, times, self.now + seconds * SECOND)
            self._is_put_back(number)
        else:
            assert self.state.in_progress(number, times, self.now + ACK_WAIT)

    def _is_put_back(self, number: int) -> None:
        key = self.keys[number]
        self.put_back[key] = min(number, self.put_back.get(key, number))

    @property
    def lost(self) -> set[int]:
        """Neither done, nor out, nor handed out when its time comes."""
        everything = set(range(len(self.keys)))
        for _ in range(2 * len(self.keys)):
            self.now += 1000 * SECOND
            self.state.look(self.now)
            for _ in self.keys:
                self._hand_out()
        return everything - set(self.state.out) - self.done


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=8), STEPS)
def test_acknowledging_loses_nothing_and_keeps_each_key_in_order(
    keys: list[str], steps: list[tuple[str, int, int]]
) -> None:
    """Each record is new, out, waiting or done; and what is handed out of a key is never before one that waits."""
    shard = Shard(keys)
    for what, which, seconds in steps:
        shard.step(what, which, seconds)
        prefix = next((n for n in range(len(keys)) if n not in shard.done), len(keys))
        assert shard.state.finished == prefix
    shard.put_back.clear()
    assert shard.lost == set()


def test_a_change_that_is_cut_anywhere_loses_nothing_once_it_is_mended() -> None:
    """As a signal handler's exception cuts it: each attribute alone, and each entry of a dict, is changed or not."""
    chance = Random(7)
    for _ in range(300):
        shard = Shard([chance.choice("abc") for _ in range(8)])
        for _ in range(12):
            shard.step(
                chance.choice(["out", "out", "ack", "nak", "wait"]),
                chance.randrange(8),
                chance.randrange(400),
            )
        forgets: dict[Any, Any] = chance.choice([shard.state.out, shard.state._out_of, shard.state._waiting])
        if forgets:
            forgets.pop(chance.choice(list(forgets)))
        shard.state.mend(shard.upcoming, shard.keys.__getitem__)
        shard.put_back.clear()
        assert shard.lost == set()
