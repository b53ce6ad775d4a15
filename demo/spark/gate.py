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
    """What the producer waits for between two events, in its own thread.

    spark_has_it, spark_is_done   set to let it go on
    all_is_sparks                 set by it when all that Spark is to have is put: it waits for spark_is_done
    """

    spark_has_it: threading.Event = field(default_factory=threading.Event)
    all_is_sparks: threading.Event = field(default_factory=threading.Event)
    spark_is_done: threading.Event = field(default_factory=threading.Event)

    def wait_until_done(self) -> None:
        self.all_is_sparks.set()
        self.spark_is_done.wait()

    @contextmanager
    def opened_at_last(self) -> Iterator[None]:
        """However the block ends, nobody waits any more."""
        try:
            yield
        finally:
            self.spark_has_it.set()
            self.spark_is_done.set()
