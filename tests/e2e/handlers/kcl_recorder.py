"""The recorder (recorder.py) as a kclpy record processor: behind the MultiLangDaemon this program, behind sublet the
class."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from amazon_kclpy import kcl  # type: ignore[import-not-found] # of LocalStack's environment
from amazon_kclpy.v3 import processor  # type: ignore[import-not-found]

DIRECTORY = Path(os.environ["RECORDER_DIRECTORY"])


class RecordProcessor(processor.RecordProcessorBase):  # type: ignore[misc] # as above
    """Checkpoints each batch when it is done."""

    def initialize(self, given: Any) -> None:
        self._shard_id = given.shard_id

    def process_records(self, given: Any) -> None:
        with (DIRECTORY / f"{os.getpid()}.jsonl").open("a") as lines:
            for record in given.records:
                place = [record.sequence_number, record.sub_sequence_number, record.partition_key]
                text = record.binary_data.decode()
                lines.write(json.dumps([time.time_ns(), self._shard_id, *place, text]) + "\n")
        _checkpoint(given.checkpointer)

    def lease_lost(self, _: Any) -> None:
        """Nothing to forget."""

    def shard_ended(self, given: Any) -> None:
        _checkpoint(given.checkpointer)

    def shutdown_requested(self, given: Any) -> None:
        _checkpoint(given.checkpointer)


def _checkpoint(checkpointer: Any) -> None:
    try:
        checkpointer.checkpoint()
    except kcl.CheckpointError:
        return  # the lease was taken meanwhile: its new owner gets these records again


if __name__ == "__main__":
    kcl.KCLProcess(RecordProcessor()).run()
