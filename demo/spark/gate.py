"""Where the flow of events waits for what has to happen first, so that each runtime meets a reshard, or a rest, for certain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BY_LAMBDA = 0.55
"""The part of all events that flows before Spark has the leases."""

SPLIT_AT, MERGE_AT = 0.6, 0.7
BY_SPARK = 0.88
"""The part that flows before Spark has given them back."""


@dataclass(frozen=True, slots=True)
class Gates:
    """`spark_has_it`, `spark_is_done`: waited for between two events, in the producer's thread."""

    spark_has_it: threading.Event = field(default_factory=threading.Event)
    spark_is_done: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def opened_at_last(self) -> Iterator[None]:
        """However the block ends, nobody waits any more."""
        try:
            yield
        finally:
            self.spark_has_it.set()
            self.spark_is_done.set()
