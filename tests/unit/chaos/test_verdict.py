"""The judges of `make chaos` can say no: each promise broken once, by hand, in a journal that no consumer wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint

from tests.chaos.journal import Begun, Call, Ended, Entry, Journal, Record
from tests.chaos.plan import Kind
from tests.chaos.recovery import NANOSECONDS, Fault, Recovery, Tick, recoveries
from tests.chaos.report import BOUND, draw_report, problems
from tests.chaos.run import Found
from tests.chaos.verdict import SETTLED, Sighting, Verdict, judge

S = NANOSECONDS


def begun(at: int, checkpoint: Checkpoint = TRIM_HORIZON, tenure: str = "p1", shard: str = "a") -> Begun:
    return Begun(at, shard, tenure, 1, checkpoint)


def call(at: int, *numbers: int, done: int | None = None, tenure: str = "p1", shard: str = "a") -> Call:
    """Of one key: its n-th event has the sequence number n + 100."""
    records = tuple(Record(Checkpoint(str(number + 100)), f"k/{number}") for number in numbers)
    return Call(at, shard, tenure, 1, records, len(records) if done is None else done, done is not None)


def verdict(*entries: Entry, put: int = 3, rows: Sequence[Sighting] = (), at_rest: Fault | None = None) -> Verdict:
    suspended = {1: [at_rest]} if at_rest else {}
    return judge([f"k/{number}" for number in range(put)], entries, {"a": rows}, suspended)


def test_verdict_is_clean_when_every_record_is_handled_once() -> None:
    found = verdict(begun(1), call(2, 0, 1), call(3, 2), Ended(4, "a"))
    assert found.is_clean
    assert (found.handled, found.again, found.redelivered_share) == (3, 0, 0)


def test_verdict_counts_records_that_no_call_finished_as_missing() -> None:
    assert verdict(begun(1), call(2, 0, 1)).missing == ("k/2",)
    assert verdict(begun(1), call(2, 0, 1, 2, done=1)).missing == ("k/1", "k/2"), "shown is not done"


def test_a_failed_call_goes_on_where_it_stopped() -> None:
    found = verdict(begun(1), call(2, 0, 1, 2, done=1), call(3, 1, 2))
    assert found.is_clean
    assert (found.failed_calls, found.unfinished, found.again) == (1, 2, 0)


def test_a_failed_call_whose_records_are_skipped_is_out_of_order() -> None:
    found = verdict(begun(1), call(2, 0), call(3, 1, done=0), call(4, 2))
    assert found.broken_tenures == ("p1: k/2 after k/0",)


def test_a_first_delivery_after_a_later_one_is_out_of_order() -> None:
    found = verdict(begun(1), call(2, 1, 2), begun(3, tenure="p2"), call(4, 0, tenure="p2"))
    assert found.out_of_order == ("k/0",)


def test_an_owner_that_goes_back_within_its_tenure() -> None:
    found = verdict(begun(1), call(2, 0, 1, 2), call(3, 1, 2))
    assert found.broken_tenures == ("p1: k/1 after k/2",)
    assert not found.out_of_order, "none of them is a first delivery"


def test_the_next_owner_goes_back_to_the_checkpoint_and_no_further() -> None:
    first: list[Entry] = [begun(1), call(2, 0, 1, 2)]
    again = verdict(*first, begun(9, Checkpoint("100"), "p2"), call(10, 1, 2, tenure="p2"))
    assert again.is_clean
    assert (again.again, again.redelivered_share) == (2, 0.4)
    before_its_start = verdict(*first, begun(9, Checkpoint("101"), "p2"), call(10, 1, 2, tenure="p2"))
    assert before_its_start.broken_tenures == ("p2: k/1 at 101, though it starts after 101",)


def test_tenure_that_begins_before_the_settled_checkpoint_is_too_far_back() -> None:
    entries: list[Entry] = [begun(1), call(2, 0, 1, 2), begun(2 * SETTLED, Checkpoint("100"), "p2")]
    rows = [Sighting(1, TRIM_HORIZON), Sighting(SETTLED, Checkpoint("101"))]
    assert len(verdict(*entries, rows=rows).too_far_back) == 1
    late = [Sighting(1, TRIM_HORIZON), Sighting(SETTLED + 1, Checkpoint("101"))]
    assert verdict(*entries, rows=late).is_clean, "it may have acquired before the late checkpoint"
    asleep = Fault(Kind.SUSPEND_WORKER, SETTLED + 5, 2 * SETTLED - 5, frozenset("a"), "")
    assert verdict(*entries, rows=rows, at_rest=asleep).is_clean, "it slept between acquire and begin"


def test_a_call_without_a_lease() -> None:
    assert verdict(call(1, 0, 1, 2)).broken_tenures == ("p1: called before it had heard that it has the lease",)


def kill(at: float, *shards: str, kind: Kind = Kind.KILL_WORKER, lasts: float = 0) -> Fault:
    return Fault(kind, int(at * S), int((at + lasts) * S), frozenset(shards), "")


def calls(shard: str, *at: float) -> list[Entry]:
    return [call(int(each * S), 0, shard=shard) for each in at]


def only(faults: list[Fault], entries: list[Entry], ticks: Sequence[Tick] = ()) -> tuple[float | None, float | None]:
    first = recoveries(faults, entries, ticks)[0]
    return first.seconds, first.undisturbed


def test_recovered_when_the_last_of_the_shards_delivers_again() -> None:
    assert only([kill(10, "a", "b")], [*calls("a", 9, 12, 30), *calls("b", 5, 14)]) == (4, 4)
    assert only([kill(10, "a", "b")], [*calls("a", 9, 12), Ended(13 * S, "b")]) == (3, 3), "or has ended"


def test_recovery_is_none_for_workers_that_never_recovered() -> None:
    assert only([kill(10, "a", "b")], [*calls("a", 9, 12), *calls("b", 9, 10)]) == (None, None)


def test_no_recovery_is_measured_while_the_network_is_bad() -> None:
    bad = kill(5, "a", kind=Kind.NETWORK, lasts=9)
    assert only([kill(10, "a"), bad], calls("a", 20)) == (10, 6)
    assert only([kill(10, "a"), bad], calls("a", 12)) == (2, 0)
    assert only([bad], calls("a", 6, 17)) == (3, 3), "counted from its end"
    assert only([bad], [*calls("a", 6), Ended(7 * S, "a")]) == (0, 0), "an ended shard needs nothing more"


def found(seen: Verdict, *recovered: Recovery, wrong: Sequence[str] = ()) -> Found:
    return Found(7, 60, seen, recovered, {}, {}, {}, 0, {}, 0, 0, 0, 0, wrong)


def test_every_broken_promise_is_a_problem_and_is_shown() -> None:
    clean = verdict(begun(1), call(2, 0, 1, 2))
    quick = Recovery(kill(1, "a"), 1.0, 1.0)
    assert problems(found(clean, quick)) == []
    for bad in (
        found(verdict(begun(1), call(2, 0, 1))),
        found(verdict(begun(1), call(2, 0, 1, 2), call(3, 1))),
        found(clean, wrong=["a: counter went back"]),
        found(clean, quick, quick, Recovery(kill(1, "a"), None, None)),
        found(clean, quick, quick, Recovery(kill(1, "a"), BOUND + 1, BOUND + 0.1)),
    ):
        assert len(problems(bad)) == 1
        screen = StringIO()
        Console(file=screen, width=200).print(draw_report(bad))
        assert problems(bad)[0] in screen.getvalue()
        assert "Something is wrong" in screen.getvalue()
    disturbed = Recovery(kill(1, "a"), BOUND + 9, 2.0)
    assert problems(found(clean, quick, quick, disturbed)) == []


def test_the_journal_of_a_process_that_was_killed_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "12-34.jsonl"
    lines = [
        ["acquired", 1, "a", "99"],
        ["call", 2, "a", 2, [["100", 0, "k/0"], ["101", 1, "k/1"]], False],
        ["acquired", 3, "a", "101:1"],
    ]
    cut = '["call", 4, "a", 1, [["1'
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + cut)
    journal = Journal(tmp_path)
    journal.read()
    journal.read()
    first, second, third = journal.entries
    assert first == Begun(1, "a", "12-34 a 1", 12, Checkpoint("99"))
    assert isinstance(second, Call)
    assert (second.tenure, second.records[1].checkpoint) == ("12-34 a 1", Checkpoint("101", 1))
    assert third == Begun(3, "a", "12-34 a 2", 12, Checkpoint("101", 1))
    assert journal.handled == {"k/0", "k/1"}
    assert journal.at_work(2) == {12: {"a"}}
    assert journal.at_work(3) == {}
    with path.open("a") as file:
        file.write('02", 0, "k/2"]], false]\n["ended", 5, "a"]\n')
    journal.read()
    assert journal.handled == {"k/0", "k/1", "k/2"}
    assert journal.entries[-1] == Ended(5, "a")
    assert journal.at_work(0) == {}, "an ended shard has no worker"
