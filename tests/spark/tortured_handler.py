"""The handler of a fleet that takes turns with `sublet pipeline`: each record's data becomes a line of a file."""

from __future__ import annotations

import os

from sublet import Batch

JOURNAL = "TORTURED_JOURNAL"


def handle(batch: Batch) -> None:
    with open(os.environ[JOURNAL], "ab") as journal:  # noqa: PTH123 - one write, which a kill cannot cut
        journal.write(b"".join(record.data + b"\n" for record in batch.records))
