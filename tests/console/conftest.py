"""A browser for the tests of the console."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.chromium import MISSING, chromium, found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Without a Chromium the tests are skipped, and where CI is set, they fail."""
    if found() is None and "CI" not in os.environ:
        pytest.skip(MISSING)
    with chromium() as started:
        yield started
