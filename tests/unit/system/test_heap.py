"""One heap for all threads of a process that consumes."""

from __future__ import annotations

import platform
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from sublet.system.heap import use_one_heap


def test_one_heap_is_used_with_glibc_alone() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # it cannot be undone
        assert pool.submit(use_one_heap).result() is (platform.libc_ver()[0] == "glibc")
