"""kcl-rs: KCL 3 in Rust, polling as often as Kinesis allows (its own default is 1.5 s), with a checkpoint for each batch."""

from __future__ import annotations

import os

from kcl_rs import ProcessRecordsInput, Scheduler, ShardEndedInput, ShutdownRequestedInput

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.tally import POLL_INTERVAL_MILLIS, POLL_LIMIT, Order


class Timing:
    """A processor as kcl-rs asks for one."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def initialize(self, _: object) -> None: ...

    def process_records(self, given: ProcessRecordsInput) -> None:
        self._arrivals.add(record.data for record in given.records)
        if given.records:
            given.checkpointer.checkpoint()

    def lease_lost(self, _: object) -> None: ...

    def shard_ended(self, given: ShardEndedInput) -> None:
        given.checkpointer.checkpoint()

    def shutdown_requested(self, given: ShutdownRequestedInput) -> None:
        given.checkpointer.checkpoint()


def main(order: Order) -> None:
    arrivals = Arrivals(order.expected)
    Scheduler(
        stream_name=order.stream,
        application_name=order.application,
        record_processor_factory=lambda: Timing(arrivals),
        region=os.environ["AWS_REGION"],
        initial_position="TRIM_HORIZON",
        retrieval_mode="POLLING",
        max_records=POLL_LIMIT,
        idle_time_between_reads_millis=POLL_INTERVAL_MILLIS,
    ).run()


if __name__ == "__main__":
    main(Order.from_command_line())
