"""A record processor of kclpy's, in any of its three versions, without kclpy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.errors import HandlerNotLoadable, LeaseTableUnavailable
from sublet.handlers.kcl_checkpointer import CheckpointError
from sublet.handlers.load import handler_of
from sublet.ports import Applied, Refused
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.settings import HandlerContract, Mode, Settings
from sublet.testing import MemoryConsumer
from sublet.testing import batches as made

from tests.doubles.engine_world import MINUTE, NO_WAITING, SHARD, EngineWorld, only

KCL = replace(NO_WAITING, handler_contract=HandlerContract.RECORD_PROCESSOR)
Told = list[tuple[Any, ...]]
Script = Callable[[Any, Any], object]


def nothing(_: Any, __: Any) -> None: ...


def processor_of(told: Told, script: Script = nothing, *, checkpoints: bool = True) -> type:
    """A class as kclpy's version 3. `script` runs in process_records, with the records and the checkpointer."""

    class Processor:
        version = 3

        def __init__(self) -> None:
            self.number = sum(each[0] == "initialize" for each in told)

        def initialize(self, given: Any) -> None:
            told.append(("initialize", given.shard_id, given.sequence_number, given.sub_sequence_number))

        def process_records(self, given: Any) -> None:
            data = [record.binary_data for record in given.records]
            told.append(("process_records", self.number, data, given.millis_behind_latest))
            script(given.records, given.checkpointer)

        def lease_lost(self, given: Any) -> None:
            told.append((given.action, self.number))

        def shard_ended(self, given: Any) -> None:
            told.append((given.action, self.number))
            if checkpoints:
                given.checkpointer.checkpoint()

        def shutdown_requested(self, given: Any) -> None:
            told.append((given.action, self.number))
            if checkpoints:
                given.checkpointer.checkpoint()

    return Processor


def window(world: EngineWorld, processor: object, **options: Any) -> Any:
    handler = handler_of(processor, world.settings)
    world.handler = handler  # type: ignore[assignment] # the world's own remembers what this one is told
    return world.window(**options)


def test_record_processor_is_called_in_kclpys_order() -> None:
    told: Told = []
    world = EngineWorld(KCL)
    _, last = world.put("a", "b")
    assert only(window(world, processor_of(told))).outcome is SessionOutcome.CAUGHT_UP
    assert told == [
        ("initialize", SHARD, "TRIM_HORIZON", 0),
        ("process_records", 0, [b"a", b"b"], 0),
        ("shutdownRequested", 0),
        ("leaseLost", 0),
    ]
    assert str(world.table.lease().checkpoint) == last


def test_returning_does_not_checkpoint() -> None:
    told: Told = []
    world = EngineWorld(KCL)
    world.put("a")
    processor = processor_of(told, checkpoints=False)
    window(world, processor)
    assert str(world.table.lease().checkpoint) == "TRIM_HORIZON"
    window(world, processor)
    assert [call for call in told if call[0] == "process_records"] == [
        ("process_records", 0, [b"a"], 0),
        ("process_records", 1, [b"a"], 0),
    ], "an instance for each lease"


def test_raising_does_not_skip_the_batch() -> None:
    """MultiLangDaemon passes over it, and the next checkpoint covers it."""
    told: Told = []
    world = EngineWorld(KCL)
    _, last = world.put("a", "b")

    def fail_once(_: Any, checkpointer: Any) -> None:
        if len(told) == 2:
            raise ValueError("not now")
        checkpointer.checkpoint()

    window(world, processor_of(told, fail_once))
    assert [call[2] for call in told if call[0] == "process_records"] == [[b"a", b"b"]] * 2
    assert str(world.table.lease().checkpoint) == last


def test_records_checkpointed_before_an_exception_are_not_delivered_again() -> None:
    told: Told = []
    world = EngineWorld(KCL)
    world.put("a", "b", "c")

    def fail_once(records: Any, checkpointer: Any) -> None:
        if len(told) == 2:
            checkpointer.checkpoint(records[1].sequence_number)
            raise ValueError("the third fails")

    window(world, processor_of(told, fail_once))
    assert [call[2] for call in told if call[0] == "process_records"] == [[b"a", b"b", b"c"], [b"c"]]


def test_a_shard_ends_when_it_has_checkpointed_its_end() -> None:
    told: Told = []
    world = EngineWorld(KCL)
    world.put("a")
    world.shards.split(SHARD)
    report = window(world, processor_of(told), item=world.item(SHARD))
    assert report.leases[0].outcome is SessionOutcome.SHARD_ENDED
    of_the_parent = told[: told.index(("shardEnded", 0)) + 1]
    assert [call[0] for call in of_the_parent] == ["initialize", "process_records", "shardEnded"]
    assert {call[1] for call in told if call[0] == "initialize"} >= {SHARD}


def test_processor_without_a_checkpoint_at_shard_end_is_asked_again() -> None:
    told: Told = []
    world = EngineWorld(replace(KCL, handler_attempts=2))
    world.put("a")
    world.shards.split(SHARD)
    report = window(world, processor_of(told, checkpoints=False), item=world.item(SHARD))
    assert report.leases[0].outcome is SessionOutcome.HANDLER_FAILED
    assert [call[0] for call in told][2:] == ["shardEnded", "shardEnded", "shutdownRequested", "leaseLost"]
    assert not world.table.lease().is_ended


def test_a_lease_that_is_kept_is_asked_for_its_checkpoint_at_each_window_s_end() -> None:
    told: Told = []
    world = EngineWorld(replace(KCL, mode=Mode.CONTINUOUS))
    world.put("a")
    processor = processor_of(told)
    report = window(world, processor)
    world.put("b")
    window(world, processor, item=report.item)
    assert [call[2] for call in told if call[0] == "process_records"] == [[b"a"], [b"b"]]
    assert [call[0] for call in told] == [
        "initialize",
        "process_records",
        "shutdownRequested",
        "leaseLost",
    ] * 2


def test_a_processor_whose_lease_is_taken_is_notified_and_may_not_checkpoint() -> None:
    told: Told = []
    world = EngineWorld(KCL)
    world.put("a")
    raised: list[str] = []

    def steal(_: Any, checkpointer: Any) -> None:
        world.steal()
        for _ in range(2):
            try:
                checkpointer.checkpoint()
            except CheckpointError as error:
                raised.append(error.value)

    assert only(window(world, processor_of(told, steal))).outcome is SessionOutcome.LEASE_LOST
    assert raised == ["ShutdownException"] * 2
    assert [call[0] for call in told] == ["initialize", "process_records", "leaseLost"]


def test_a_table_out_of_reach_may_be_tried_again() -> None:
    world = EngineWorld(KCL)
    _, last = world.put("a", "b")
    raised: list[str] = []
    failures = 2

    def out_of_reach(write: LeaseWrite, apply: Callable[[], Applied | Refused]) -> Applied | Refused:
        nonlocal failures
        if write.kind is WriteKind.CHECKPOINT and failures > 0:
            failures -= 1
            raise LeaseTableUnavailable("not now")
        return apply()

    def insist(_: Any, checkpointer: Any) -> None:
        while True:
            try:
                checkpointer.checkpoint()
                return
            except CheckpointError as error:
                raised.append(error.value)

    world.table.disturb = out_of_reach
    window(world, processor_of([], insist, checkpoints=False))
    assert raised == ["ThrottlingException"] * 2
    assert str(world.table.lease().checkpoint) == last


def test_checkpoint_numbers_are_judged_as_by_the_kcl() -> None:
    """As recorded with MultiLangDaemon 3.0.3, but for the last: nothing given is the last record given."""
    world = EngineWorld(KCL)
    world.put("plain")
    whole = aggregate([("k", None, b"0"), ("k", None, b"1"), ("k", None, b"2")])
    world.shards.put("k", whole, 0)
    said: list[tuple[object, object, str]] = []

    def script(records: Any, checkpointer: Any) -> None:
        plain, number = records[0].sequence_number, records[1].sequence_number
        tries: list[tuple[object, object]] = [
            (plain, None),
            (number, 1),
            (number, 0),
            (number, 99),
            (plain, 0),
            ("LATEST", None),
            ("TRIM_HORIZON", None),
            ("", 0),
            ("SHARD_END", None),
            ("-1", 0),
            (str(int(number) + 1), 0),
            (int(number), 1),
            (number, 2),
            (None, None),
        ]
        for sequence_number, sub in tries:
            try:
                checkpointer.checkpoint(sequence_number, sub)
                said.append((sequence_number, sub, "fine"))
            except CheckpointError as error:
                said.append((sequence_number, sub, error.value))

    window(world, processor_of([], script))
    illegal = "IllegalArgumentException"
    assert [answer for _, _, answer in said] == [
        "fine",
        "fine",
        illegal,
        illegal,
        illegal,
        illegal,
        illegal,
        illegal,
        illegal,
        illegal,
        illegal,
        "fine",
        "fine",
        "fine",
    ]
    assert world.table.lease().checkpoint.sub_sequence_number == 2


def test_numbers_that_nothing_could_be_made_of_are_illegal_and_text_is_as_good() -> None:
    world, said = EngineWorld(KCL), list[str]()
    world.put("a", "b")

    def script(records: Any, checkpointer: Any) -> None:
        number = records[0].sequence_number
        for to in ((number, "x"), (number, 0.5), (number, -1), ("0", None), ("7", 0), (number, "0")):
            try:
                checkpointer.checkpoint(*to)
                said.append("fine")
            except CheckpointError as error:
                said.append(error.value)

    window(world, processor_of([], script, checkpoints=False))
    assert said == ["IllegalArgumentException"] * 5 + ["fine"]


def test_records_are_those_of_kclpy() -> None:
    world = EngineWorld(KCL)
    [number] = world.put("a")
    seen: list[Any] = []
    window(world, processor_of([], lambda records, _: seen.extend(records)))
    [record] = seen
    assert (record.data, record.binary_data, record.partition_key) == ("YQ==", b"a", "key-a")
    assert (record.sequence_number, record.sub_sequence_number) == (number, 0)
    assert (record["data"], record.get("partitionKey"), record["sequenceNumber"]) == ("YQ==", "key-a", number)
    assert record.timestamp_millis == record["approximateArrivalTimestamp"]
    assert record.approximate_arrival_timestamp.timestamp() * 1000 == record.timestamp_millis
    assert record.approximate_arrival_timestamp.tzinfo is None


class Second:
    """Version 2, as its base class in kclpy."""

    version = 2
    told: ClassVar[Told] = []

    def initialize(self, given: Any) -> None:
        self.told.append(("initialize", given.shard_id))

    def process_records(self, given: Any) -> None:
        self.told.append(("process_records", len(given.records)))
        given.checkpointer.checkpoint()

    def shutdown(self, given: Any) -> None:
        self.told.append(("shutdown", given.reason))
        if given.reason == "TERMINATE":
            given.checkpointer.checkpoint()

    def shutdown_requested(self, given: Any) -> None:
        self.told.append(("shutdown_requested",))
        given.checkpointer.checkpoint()


class First:
    """Version 1, as its base class in kclpy."""

    version = 1
    told: ClassVar[Told] = []

    def initialize(self, shard_id: str) -> None:
        self.told.append(("initialize", shard_id))

    def process_records(self, records: Any, checkpointer: Any) -> None:
        self.told.append(("process_records", len(records)))
        checkpointer.checkpoint(records[-1].get("sequenceNumber"))

    def shutdown(self, checkpointer: Any, reason: str) -> None:
        self.told.append(("shutdown", reason))
        if reason == "TERMINATE":
            checkpointer.checkpoint()

    def shutdown_requested(self, checkpointer: Any) -> None:
        self.told.append(("shutdown_requested",))
        checkpointer.checkpoint()


@pytest.mark.parametrize("version", [First, Second])
def test_older_versions_are_called_as_they_want(version: type[First | Second]) -> None:
    version.told.clear()
    world = EngineWorld(KCL)
    world.put("a", "b")
    window(world, version)
    world.put("c")
    world.shards.split(SHARD)
    report = window(world, version, item=world.item(SHARD))
    assert report.leases[0].outcome is SessionOutcome.SHARD_ENDED
    assert version.told[:7] == [
        ("initialize", SHARD),
        ("process_records", 2),
        ("shutdown_requested",),
        ("shutdown", "ZOMBIE"),
        ("initialize", SHARD),
        ("process_records", 1),
        ("shutdown", "TERMINATE"),
    ]


def test_processor_functions_may_be_async() -> None:
    seen: list[bytes] = []

    class Processor:
        async def initialize(self, given: Any) -> None:
            self.shard_id = given.shard_id

        async def process_records(self, given: Any) -> None:
            await asyncio.sleep(0)
            seen.extend(record.binary_data for record in given.records)

        async def lease_lost(self, given: Any) -> None:
            seen.append(given.action.encode())

        async def shard_ended(self, given: Any) -> None:
            given.checkpointer.checkpoint()

        async def shutdown_requested(self, given: Any) -> None:
            given.checkpointer.checkpoint()

    consumer = MemoryConsumer(handler_contract=HandlerContract.RECORD_PROCESSOR)
    [number] = consumer.put(b"a")
    done = consumer.consume(Processor)
    assert seen == [b"a", b"leaseLost"]
    assert [str(checkpoint) for checkpoint in done.checkpoints.values()] == [number]


def test_a_processor_of_an_earlier_session_hears_that_its_lease_is_lost() -> None:
    """An operator has moved the lease's checkpoint: nothing is said of a loss."""
    told: Told = []
    handler = handler_of(processor_of(told), KCL)
    handler.lease_acquired(SHARD, TRIM_HORIZON)
    handler.lease_acquired(SHARD, Checkpoint("7"))
    assert told == [("initialize", SHARD, "TRIM_HORIZON", 0), ("leaseLost", 0), ("initialize", SHARD, "7", 0)]
    handler.lease_lost(SHARD)
    handler.lease_lost(SHARD)
    assert told[3:] == [("leaseLost", 1)]


def test_processor_that_checkpoints_seldom_keeps_no_batch_in_memory() -> None:
    """Its checkpointer knows positions: a minute of a busy shard's records would be a hundred megabytes."""
    told: Told = []
    world = EngineWorld(replace(KCL, mode=Mode.CONTINUOUS, batch_size=1))
    world.put(*"abcdef")
    handler = handler_of(processor_of(told), world.settings)
    world.handler = handler  # type: ignore[assignment] # as above
    world.window(lasts=MINUTE)
    assert len([call for call in told if call[0] == "process_records"]) == 6


def of_ours(batch: object) -> None: ...


def makes_one() -> object:
    return processor_of([])()


class NeedsMore:
    def __init__(self, table: str) -> None:
        self.table = table

    def process_records(self, given: object) -> None: ...


@pytest.mark.parametrize(
    ("handler", "contract", "sentence"),
    [
        (processor_of([]), "batch", "has process_records: set handler_contract=record_processor"),
        (processor_of([])(), "lambda_event", "has process_records: set handler_contract=record_processor"),
        (
            processor_of([])(),
            "record_processor",
            "name its class, since each lease has an instance of its own",
        ),
        (of_ours, "record_processor", "set handler_contract=batch"),
        (EngineWorld, "record_processor", "is a class without process_records"),
        (NeedsMore, "record_processor", "cannot be made without arguments"),
    ],
)
def test_an_unfit_processor_gets_an_error_that_says_what_to_set(handler: object, contract: str, sentence: str) -> None:
    settings = Settings(application="orders", stream="events", handler_contract=HandlerContract(contract))
    with pytest.raises(HandlerNotLoadable, match=sentence):
        handler_of(handler, settings)


def test_function_may_create_record_processors() -> None:
    handler_of(makes_one, KCL)


class FirstUnstated:
    """Version 1, without the base class that says so."""

    def initialize(self, shard_id: str) -> None: ...

    def process_records(self, records: Any, checkpointer: Any) -> None: ...


def test_a_version_1_processor_that_does_not_say_so_gets_an_error_that_says_how() -> None:
    settings = Settings(application="orders", stream="memory", handler_contract=HandlerContract.RECORD_PROCESSOR)
    with pytest.raises(HandlerNotLoadable, match=r"process_records takes two arguments.* set `version = 1`"):
        handler_of(FirstUnstated, settings)
    with pytest.raises(HandlerNotLoadable, match="set `version = 1`"):
        handler_of(type("InText", (FirstUnstated,), {"version": "1"}), settings)
    handler_of(type("Stated", (FirstUnstated,), {"version": 1}), settings)
    handler_of(Second, settings)


@pytest.mark.parametrize("is_redrive", [False, True])
def test_process_records_input_tells_of_a_redrive(is_redrive: bool) -> None:
    told: list[bool] = []

    class Processor:
        version = 3

        def initialize(self, _: Any) -> None: ...

        def process_records(self, given: Any) -> None:
            told.append(given.is_redrive)

        def lease_lost(self, _: Any) -> None: ...

    handler = handler_of(Processor, KCL)
    handler.lease_acquired(made.SHARD, TRIM_HORIZON)
    handler.handle(made.batch([b"a"], is_redrive=is_redrive))
    assert told == [is_redrive]
