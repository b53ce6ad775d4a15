"""The settings of CPython's garbage collector in a process of sublet."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from sublet.system.heap import NEW_OBJECTS, collect_seldom


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_a_worker_walks_its_user_records_seldom_and_never_its_imports() -> None:
    collect_seldom()
    assert gc.isenabled()
    assert gc.get_threshold()[0] == NEW_OBJECTS
    assert gc.get_freeze_count() > 0
