"""The producer's promises hold for what a fleet handles meanwhile, and the worlds notice a producer that breaks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from sublet.decisions.putting.outbox import Outbox
from sublet.decisions.putting.producing import ProducerState
from sublet.errors import RecordRefused, TransientError
from sublet.ports import Signal
from sublet.protocol.records import PutRefused
from sublet.putting.loop import PuttingLoop
from sublet.testing.simulation.run import Result

from tests.exploring import first, in_blocks
from tests.simulation.noticed import assert_noticed
from tests.simulation.producing import BelievesWhatIsNotAnswered, Put, PutsTwice, produce

WORLDS = 60


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", in_blocks(range(200), size=5, few=1))
def test_worlds_with_producers(seeds: Sequence[int]) -> None:
    """And something happens in them: records are given up, answers are lost, and records come twice."""
    seen: Counter[str] = Counter()

    def notes(put: Put) -> None:
        seen["acknowledged"] += len(put.acknowledged)
        seen["given up"] += len(put.given_up)
        seen["twice"] += sum(times > 1 for times in put.stored.values())

    broken = {seed: found for seed in seeds if (found := produce(seed, notes=notes).violation)}
    assert not broken, broken
    assert seen["acknowledged"] > 300 * len(seeds)
    assert seen["given up"]
    assert seen["twice"]


def closed_at_once(of: PuttingLoop) -> Signal:
    done = of._ports.tasks.signal()
    done.set()
    return done


def believed(of: ProducerState, entry: Any, at: Any, now: Any) -> None:
    """Wherever an aggregate has landed."""
    for box in entry.waiting_for_it:
        box.in_flight -= 1
    of._succeeded(entry, at)


def queued_again(of: Outbox, records: list[Any]) -> None:
    """Behind what waits."""
    for record in records:
        of.add(record)


def all_refused(of: ProducerState, call: Any, answers: Any, now: Any) -> None:
    """For one record of the call."""
    refused = isinstance(answers, RecordRefused)
    settle(of, call, [PutRefused("No", "", passes=False)] * len(call.entries) if refused else answers, now)


def given_up_with_others(of: ProducerState, entry: Any, now: Any) -> None:
    of._give_up(entry.user_records, RecordRefused("an aggregate is refused"))


settle = ProducerState.settle


@dataclass(frozen=True)
class Planted:
    """A mistake in the producer's own rules (`name` of `where` is replaced), or in how it is used."""

    noticed_as: str
    world: Callable[[int], Result] = produce
    where: Any = None
    name: str = ""
    by: Any = None


PLANTED = {
    "a lost answer is a success": Planted(
        r"acknowledged, and no consumer can read it$", partial(produce, mistake=BelievesWhatIsNotAnswered)
    ),
    "a call is repeated as a whole": Planted(
        r"is stored twice, though no answer was lost$", partial(produce, mistake=PutsTwice)
    ),
    "calls of a shard overtake each other": Planted(
        r"is handled for the first time after",
        partial(produce, change_rules=lambda rules: replace(rules, ordered=False)),
    ),
    "close does not wait": Planted(
        r"close returns, and it is not known what came of", where=PuttingLoop, name="close", by=closed_at_once
    ),
    "an aggregate is well wherever it lands": Planted(
        r"acknowledged, and no consumer can read it$", where=ProducerState, name="_landed", by=believed
    ),
    "one record takes its call with it": Planted(
        r"is given up for another record of its call$", where=ProducerState, name="settle", by=all_refused
    ),
    "one record takes its aggregate with it": Planted(
        r"is given up for another record of its call$",
        where=ProducerState,
        name="_halve",
        by=given_up_with_others,
    ),
    "credentials are gone for good": Planted(
        r"given up at once for credentials that return$",
        where=ProducerState,
        name="_may_pass",
        by=lambda _, problem: isinstance(problem, TransientError),
    ),
    "a refused record goes to the end": Planted(
        r"is handled for the first time after", where=Outbox, name="add_first", by=queued_again
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", first(2, PLANTED))
def test_a_planted_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    if planted.where is not None:
        monkeypatch.setattr(planted.where, planted.name, planted.by)
    assert_noticed(planted.world, planted.noticed_as, WORLDS, name)
