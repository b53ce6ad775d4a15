"""A user's handler in worlds of crashes, pauses and reshards."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sublet import Batch, Checkpointing, HandlerContract, Mode
from sublet.errors import HandlerNotLoadable
from sublet.testing import SimulatedRun, Simulation, SimulationFailed, simulate

SEEDS = 6


def ignore(_: Batch) -> None: ...


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return simulate(ignore, SEEDS)


@pytest.fixture(scope="module")
def runs(simulation: Simulation) -> tuple[SimulatedRun, ...]:
    return simulation.runs


@pytest.mark.slow
def test_every_record_is_finished_by_some_call(runs: tuple[SimulatedRun, ...]) -> None:
    for run in runs:
        finished = {delivery.record.data for delivery in run.deliveries if delivery.is_finished}
        assert finished == {b"%d" % number for number in range(run.records)}


@pytest.mark.slow
def test_each_keys_records_come_first_in_the_order_of_their_puts(runs: tuple[SimulatedRun, ...]) -> None:
    for run in runs:
        first: dict[str, list[int]] = defaultdict(list)
        for delivery in run.deliveries:
            number = int(delivery.record.data)
            if number not in first[delivery.record.order_key]:
                first[delivery.record.order_key].append(number)
        for numbers in first.values():
            assert all(before < after for before, after in pairwise(numbers))


@pytest.mark.slow
def test_repeated_records_are_listed_in_order_with_the_seed(simulation: Simulation) -> None:
    assert simulation.repeating
    for run in simulation.repeating:
        again = Counter(delivery.record.data for delivery in run.deliveries)
        assert len(run.repeated) == sum(times > 1 for times in again.values())
        for several in run.repeated:
            assert [one.seconds for one in several] == sorted(one.seconds for one in several)
    easiest = min(simulation.repeating, key=lambda run: len(run.repeated))
    assert f"seed {easiest.seed}: {len(easiest.repeated)} of {easiest.records} records" in str(simulation)


@pytest.mark.slow
def test_a_seed_alone_is_the_same_world_with_its_history(runs: tuple[SimulatedRun, ...]) -> None:
    (again,) = simulate(ignore, [3]).runs
    assert again.deliveries == runs[3].deliveries
    assert any("calls the handler with <Batch of memory" in line for line in again.history)
    assert runs[3].history == ()


def test_simulate_delivers_no_checkpointed_record_again() -> None:
    def one_by_one(batch: Batch) -> None:
        batch.checkpoint(batch.records[0])
        if len(batch.records) > 1:
            raise TimeoutError("the rest later")

    for run in simulate(one_by_one, [0, 1], handler_attempts=4).runs:
        finished = [delivery for delivery in run.deliveries if delivery.is_finished]
        assert {delivery.record.data for delivery in finished} == {b"%d" % n for n in range(run.records)}


def test_a_class_is_instantiated_for_each_process_and_a_function_is_shared() -> None:
    made: list[object] = []

    class Forgetful:
        def __init__(self) -> None:
            made.append(self)

        def handle(self, batch: Batch) -> None: ...

    (run,) = simulate(Forgetful, [1]).runs
    workers = {delivery.worker for delivery in run.deliveries}
    assert len(made) >= len(workers) > 1


def test_a_check_that_fails_tells_the_seed() -> None:
    total = 0

    def add_up(batch: Batch) -> None:
        """Not idempotent: what comes twice counts twice."""
        nonlocal total
        total += len(batch.records)

    def check(run: SimulatedRun) -> None:
        nonlocal total
        counted, total = total, 0
        assert counted == run.records

    with pytest.raises(AssertionError) as wrong:
        simulate(add_up, SEEDS, check=check)
    assert any(note.startswith("seed ") for note in wrong.value.__notes__)


@pytest.mark.parametrize("seeds", [0, -1, []])
def test_no_world_tests_nothing(seeds: Any) -> None:
    with pytest.raises(ValueError, match="nothing is tested"):
        simulate(print, seeds)


def test_a_check_that_says_false_fails() -> None:
    with pytest.raises(AssertionError, match="check returned False"):
        simulate(lambda _: None, 1, check=lambda _: False)


@pytest.mark.slow
def test_a_handler_for_which_a_redelivery_changes_nothing_passes_it() -> None:
    stored: set[bytes] = set()

    def store(batch: Batch) -> None:
        stored.update(record.data for record in batch.records)

    def check(run: SimulatedRun) -> None:
        assert len(stored) == run.records
        stored.clear()

    simulate(store, SEEDS, check=check)


def test_a_handler_that_fails_for_ever_is_the_cause() -> None:
    def handle(batch: Batch) -> None:
        if any(record.data == b"3" for record in batch.records):
            raise ValueError("three")

    with pytest.raises(SimulationFailed, match=r"^seed 0: not drained") as failed:
        simulate(handle, 1)
    assert repr(failed.value.__cause__) == "ValueError('three')"


def all_finished(run: SimulatedRun) -> None:
    finished = {delivery.record.data for delivery in run.deliveries if delivery.is_finished}
    assert finished == {b"%d" % number for number in range(run.records)}


def test_simulate_counts_set_aside_records_as_done() -> None:
    def handle(batch: Batch) -> None:
        if any(int(record.data) % 37 == 5 for record in batch.records):
            raise ValueError("poison")

    (run,) = simulate(
        handle,
        [2],
        maximum_retry_attempts=5,  # more than the crashes, which count as attempts
        bisect_batch_on_function_error=True,
        on_failure="arn:aws:sqs:us-east-1:123456789012:given-up",
    ).runs
    finished = {int(delivery.record.data) for delivery in run.deliveries if delivery.is_finished}
    assert finished == {number for number in range(run.records) if number % 37 != 5}


class Processor:
    """Of kclpy's third version. It keeps what it is given, two batches at a time."""

    version = 3

    def initialize(self, _: Any) -> None:
        self.batches = 0

    def process_records(self, given: Any) -> None:
        self.batches += 1
        if self.batches % 2 == 0:
            given.checkpointer.checkpoint()

    def lease_lost(self, _: Any) -> None: ...

    def shard_ended(self, given: Any) -> None:
        given.checkpointer.checkpoint()

    def shutdown_requested(self, given: Any) -> None:
        given.checkpointer.checkpoint()


@pytest.mark.parametrize("handler", [Processor, lambda: Processor()], ids=["class", "factory"])  # noqa: PLW0108 - a factory
def test_simulate_counts_a_record_processors_checkpoints_as_done(handler: Callable[[], object]) -> None:
    simulate(handler, [0, 2], handler_contract=HandlerContract.RECORD_PROCESSOR, check=all_finished)


def test_simulate_waits_for_manual_checkpoints_before_a_batch_is_done() -> None:
    """The first of two batches is kept; the last is flushed when the lease is released, or its shard ends."""

    class Keeping:
        def __init__(self) -> None:
            self.kept: dict[str, list[Batch]] = {}

        def lease_acquired(self, shard_id: str, _: object) -> None:
            self.kept[shard_id] = []

        def handle(self, batch: Batch) -> None:
            kept = self.kept[batch.shard_id]
            kept.append(batch)
            if len(kept) > 1:
                self.lease_releasing(batch.shard_id)

        def lease_releasing(self, shard_id: str) -> None:
            if kept := self.kept.get(shard_id):
                kept[-1].checkpoint(kept[-1].records[-1])
                kept.clear()

        def shard_ended(self, shard_id: str) -> None:
            self.lease_releasing(shard_id)

    simulate(Keeping, [0, 2], checkpointing=Checkpointing.MANUAL, check=all_finished)


def test_a_lambdas_handler_is_simulated() -> None:
    hard: set[str] = set()

    def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
        *_, last = event["Records"]
        number = last["kinesis"]["sequenceNumber"]
        is_hard = int(number) % 7 == 0 and number not in hard  # for once
        hard.add(number)
        return {"batchItemFailures": [{"itemIdentifier": last["kinesis"]["sequenceNumber"]}] * is_hard}

    simulate(handler, [6], handler_contract="lambda_event", check=all_finished)


def test_a_coroutine_is_simulated_and_its_checkpoint_refused_by_name() -> None:
    async def handle(_: Batch) -> None: ...

    async def checkpoint(batch: Batch) -> None:
        batch.checkpoint(batch.records[-1])

    simulate(handle, [2], check=all_finished)
    with pytest.raises(SimulationFailed, match="cannot take a checkpoint made in another thread"):
        simulate(checkpoint, [2])


def test_simulate_refuses_an_invalid_handler_at_once() -> None:
    with pytest.raises(HandlerNotLoadable, match="handler_contract=record_processor"):
        simulate(Processor, [0])


def test_data_and_settings_are_the_tests() -> None:
    def handle(batch: Batch) -> None:
        assert all(record.data.startswith(b'{"id": ') for record in batch.records)
        assert len(batch.records) <= 2

    simulation = simulate(handle, 2, data=lambda number: b'{"id": %d}' % number, mode=Mode.CATCH_UP, batch_size=2)
    assert all(run.records for run in simulation.runs)


def test_simulate_without_greenlet_says_what_to_install() -> None:
    program = "import sys; sys.modules['greenlet'] = None; from sublet.testing import simulate; simulate(print)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (
        "ModuleNotFoundError: sublet.testing.simulate needs greenlet: install sublet with its extra testing"
        in done.stderr
    )
