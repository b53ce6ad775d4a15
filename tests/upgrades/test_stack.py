"""A stack that 0.2 deployed by its own code is updated by this version, rolled back, and updated again, under load:
while shards split and merge and handlers fail, with a handler's folder that has packages of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exploring import explores
from tests.rolling.__main__ import report
from tests.rolling.run import run
from tests.upgrades.released import Code, released_or_skipped

pytestmark = [pytest.mark.emulator, pytest.mark.slow, explores, pytest.mark.timeout(1200)]

SETTLE_SECONDS = 5


@pytest.fixture
def released() -> Code:
    return released_or_skipped()


def test_a_stack_goes_from_0_2_to_now_and_back_under_load_and_loses_nothing(released: Code, tmp_path: Path) -> None:
    found = run(tmp_path, print, SETTLE_SECONDS)
    assert found.is_clean, report(found)
