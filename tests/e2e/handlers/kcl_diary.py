"""A kclpy record processor that records each of its calls, and the result of each of its checkpoints.

Behind the MultiLangDaemon it is this program, one for each lease; behind sublet the class. DIARY is a folder with a
file for each shard. It raises for the record POISON, the first time that it gets it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from amazon_kclpy import kcl  # type: ignore[import-not-found] # of LocalStack's environment
from amazon_kclpy.v3 import processor  # type: ignore[import-not-found]

Position = tuple[str | None, int | None]
Record = dict[str, Any]


class RecordProcessor(processor.RecordProcessorBase):  # type: ignore[misc] # as above
    def __init__(self) -> None:
        self._shard_id = ""
        self._has_raised = False

    def initialize(self, given: Any) -> None:
        self._shard_id = given.shard_id
        self._write(call="initialize", at=[given.sequence_number, given.sub_sequence_number])

    def process_records(self, given: Any) -> None:
        records = [_told(record) for record in given.records]
        self._write(call="process_records", records=records)
        if not self._has_raised and any(record["data"] == os.environ["POISON"] for record in records):
            self._has_raised = True
            raise ValueError("poison")
        for position in _tries(records):
            self._checkpoint(given.checkpointer, *position)

    def lease_lost(self, _: Any) -> None:
        self._write(call="lease_lost")

    def shard_ended(self, given: Any) -> None:
        self._write(call="shard_ended")
        self._checkpoint(given.checkpointer)

    def shutdown_requested(self, given: Any) -> None:
        self._write(call="shutdown_requested")
        self._checkpoint(given.checkpointer)

    def _checkpoint(self, checkpointer: Any, number: str | None = None, sub: int | None = None) -> None:
        try:
            checkpointer.checkpoint(number, sub)
        except kcl.CheckpointError as problem:
            self._write(checkpoint=[number, sub], error=problem.value)
        else:
            self._write(checkpoint=[number, sub], error=None)

    def _write(self, **what: object) -> None:
        with Path(os.environ["DIARY"], self._shard_id).open("a") as diary:
            diary.write(json.dumps(what) + "\n")


def _told(record: Any) -> Record:
    return {
        "data": record.binary_data.decode(),
        "key": record.partition_key,
        "at": [record.sequence_number, record.sub_sequence_number],
        "arrived": record.get("approximateArrivalTimestamp"),
    }


def _tries(records: list[Record]) -> list[Position]:
    """Positions in an aggregate, back and forth and outside of it; LATEST and None, which are not numbers; finally
    the whole batch."""
    numbers = [record["at"][0] for record in records if record["at"][1] > 0]
    within: list[Position] = [(number, sub) for number in numbers[:1] for sub in (2, 1, 99, None)]
    first = records[0]["at"][0]
    return [*within, (first, 0), ("1", 0), ("LATEST", None), ("", 0), (None, None), (first, 0)]


if __name__ == "__main__":
    kcl.KCLProcess(RecordProcessor()).run()
