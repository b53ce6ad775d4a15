"""The pace of polls, beyond the scenarios of tests/scenarios/pace."""

from __future__ import annotations

from sublet.decisions.session.pace import Pace
from sublet.protocol.records import Page, StreamRecord

from tests.doubles.engine_world import NO_WAITING, moment

NOW = moment("2026-01-31T08:00:00")


def test_a_record_counts_as_a_byte_at_least_though_it_has_no_data() -> None:
    """How many are asked for is a quotient of it."""
    page = Page((StreamRecord("1", b"", "k", NOW),), 0, 0)
    assert Pace(NOW).polled(page, NOW, NO_WAITING).record_bytes == 1
