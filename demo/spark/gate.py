"""Holds the flow of events until something has happened, so that each runtime is certain to meet a reshard, or a
pause."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BY_LAMBDA = 0.55
"""The fraction of all events that flows before Spark has the leases."""

SPLIT_AT, MERGE_AT = 0.6, 0.7
BY_SPARK = 0.88
"""The fraction that flows before Spark has given them back."""


@dataclass(frozen=True, slots=True)
class Gates:
    """What the producer waits for between two events, in its own thread.

    spark_has_it, spark_is_done   set to let it go on
    all_is_sparks                 set by the producer once all of Spark's events are put; it then waits for
    spark_is_done
    """

    spark_has_it: threading.Event = field(default_factory=threading.Event)
    all_is_sparks: threading.Event = field(default_factory=threading.Event)
    spark_is_done: threading.Event = field(default_factory=threading.Event)

    def wait_until_done(self) -> None:
        self.all_is_sparks.set()
        self.spark_is_done.wait()

    @contextmanager
    def opened_at_last(self) -> Iterator[None]:
        """Opens all gates when the block ends, in whatever way."""
        try:
            yield
        finally:
            self.spark_has_it.set()
            self.spark_is_done.set()
