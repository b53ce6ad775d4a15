"""kcl-rs: KCL 3 in Rust. Polls as often as Kinesis allows (its own default is 1.5 s), or with RETRIEVAL=FANOUT is
pushed to, and checkpoints each batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from kcl_rs import ProcessRecordsInput, Record, Scheduler, ShardEndedInput, ShutdownRequestedInput

from benchmarks.consumers.tally import POLL_INTERVAL_MILLIS, POLL_LIMIT, Order, told


class Telling:
    """A processor with kcl-rs' interface."""

    def __init__(self, tell: Callable[[Sequence[Record]], None]) -> None:
        self._tell = tell

    def initialize(self, _: object) -> None: ...

    def process_records(self, given: ProcessRecordsInput) -> None:
        self._tell(given.records)
        if given.records:
            given.checkpointer.checkpoint()

    def lease_lost(self, _: object) -> None: ...

    def shard_ended(self, given: ShardEndedInput) -> None:
        given.checkpointer.checkpoint()

    def shutdown_requested(self, given: ShutdownRequestedInput) -> None:
        given.checkpointer.checkpoint()


def main(order: Order) -> None:
    tell = told(order)
    retrieval = os.environ.get("RETRIEVAL", "POLLING")
    pace = {"max_records": POLL_LIMIT, "idle_time_between_reads_millis": POLL_INTERVAL_MILLIS}
    Scheduler(
        stream_name=order.stream,
        application_name=order.application,
        record_processor_factory=lambda: Telling(tell),
        region=os.environ["AWS_REGION"],
        initial_position="TRIM_HORIZON",
        retrieval_mode=retrieval,
        **(pace if retrieval == "POLLING" else {}),
    ).run()


if __name__ == "__main__":
    main(Order.from_command_line())
