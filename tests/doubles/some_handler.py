"""A handler for tests that only load one."""

from __future__ import annotations

from sublet.handler import Batch


def handle(batch: Batch) -> None:
    """Finish any batch."""
