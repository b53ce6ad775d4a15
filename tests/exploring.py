"""Marks the tests that only `make test-all` runs: tests that explore, slow tests of the tools, and cases beyond the
first few.

`make test` deselects the marker (`-m "not explores"`); pytest called by hand runs both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

explores = pytest.mark.explores


def first(few: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters: `make test` runs the first `few` of `cases`."""
    return [case if place < few else pytest.param(case, marks=explores) for place, case in enumerate(cases)]


def in_blocks(seeds: Sequence[int], size: int, few: int) -> list[Any]:
    """Parameters: `seeds` by `size` at a time, each block one test. `make test` runs the first `few` blocks."""
    blocks = [tuple(seeds[at : at + size]) for at in range(0, len(seeds), size)]
    return [
        pytest.param(block, id=f"{block[0]}-{block[-1]}", marks=() if place < few else explores)
        for place, block in enumerate(blocks)
    ]
