"""kcl-rs: KCL 3 in Rust. Polls as often as Kinesis allows (its own default is 1.5 s) and checkpoints each batch."""

from __future__ import annotations

import os

from kcl_rs import ProcessRecordsInput, Scheduler, ShardEndedInput, ShutdownRequestedInput

from benchmarks.consumers.tally import POLL_INTERVAL_MILLIS, POLL_LIMIT, Order, Tally


class Counting:
    """A processor as kcl-rs asks for one."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def initialize(self, _: object) -> None: ...

    def process_records(self, given: ProcessRecordsInput) -> None:
        self._tally.add(len(given.records))
        if given.records:
            given.checkpointer.checkpoint()

    def lease_lost(self, _: object) -> None: ...

    def shard_ended(self, given: ShardEndedInput) -> None:
        given.checkpointer.checkpoint()

    def shutdown_requested(self, given: ShutdownRequestedInput) -> None:
        given.checkpointer.checkpoint()


def main(order: Order) -> None:
    tally = Tally(order.expected)
    Scheduler(
        stream_name=order.stream,
        application_name=order.application,
        record_processor_factory=lambda: Counting(tally),
        region=os.environ["AWS_REGION"],
        initial_position="TRIM_HORIZON",
        retrieval_mode="POLLING",
        max_records=POLL_LIMIT,
        idle_time_between_reads_millis=POLL_INTERVAL_MILLIS,
    ).run()


if __name__ == "__main__":
    main(Order.from_command_line())
