"""One kcl-rs worker, which records what it gets in the recorder handler's format. Runs alone, in .local/bench.

`python kcl_rs_worker.py APPLICATION STREAM WORKER_ID START_POSITION`; START_POSITION may be AT_TIMESTAMP:<epoch
seconds>. Ends on SIGTERM, after kcl-rs's own graceful shutdown. With RECORDER_PREPARES set, checkpoints are prepared
and not committed, so that a row shows KCL's pending checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kcl_rs import CheckpointError, RecordProcessorBase, Scheduler

DIRECTORY = Path(os.environ["RECORDER_DIRECTORY"])
PREPARES = "RECORDER_PREPARES" in os.environ
LINES = DIRECTORY / f"{os.getpid()}.jsonl"
WRITING = threading.Lock()


class Recording(RecordProcessorBase):  # type: ignore[misc] # kcl-rs is not in the development environment
    """Checkpoints each batch when it is done, which is KCL's best protection against redelivery."""

    def initialize(self, initialize_input: Any) -> None:
        self.shard_id = initialize_input.shard_id

    def process_records(self, process_records_input: Any) -> None:
        with WRITING, LINES.open("a") as lines:
            for record in process_records_input.records:
                place = [
                    self.shard_id,
                    record.sequence_number,
                    record.sub_sequence_number,
                    record.partition_key,
                ]
                lines.write(json.dumps([time.time_ns(), *place, record.data.decode()]) + "\n")
        if process_records_input.records:
            _checkpoint(process_records_input.checkpointer)

    def lease_lost(self, lease_lost_input: Any) -> None:
        """Nothing to forget."""

    def shard_ended(self, shard_ended_input: Any) -> None:
        shard_ended_input.checkpointer.checkpoint()
        (DIRECTORY / f"ended-{self.shard_id}").touch()

    def shutdown_requested(self, shutdown_requested_input: Any) -> None:
        _checkpoint(shutdown_requested_input.checkpointer)


def _checkpoint(checkpointer: Any) -> None:
    try:
        if PREPARES:
            checkpointer.prepare_checkpoint()
        else:
            checkpointer.checkpoint()
    except CheckpointError as refused:  # the lease was taken meanwhile: its new owner gets these records again
        print(f"checkpoint refused: {refused.value}", file=sys.stderr, flush=True)


def main(application: str, stream: str, worker_id: str, start_position: str) -> None:
    kind, _, moment = start_position.partition(":")
    scheduler = Scheduler(
        stream_name=stream,
        application_name=application,
        record_processor_factory=Recording,
        worker_identifier=worker_id,
        region=os.environ["AWS_REGION"],
        initial_position=kind,
        timestamp=float(moment) if moment else None,
        retrieval_mode="POLLING",
        max_records=500,
        idle_time_between_reads_millis=200,
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    scheduler.start()
    stop.wait()
    scheduler.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
