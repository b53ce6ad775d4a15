"""The service's own clock, from its replies."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sublet.aws.kinesis.raw_json import service_date


@pytest.mark.parametrize(
    ("headers", "date"),
    [({"date": "Sat, 31 Jan 2026 08:00:00 GMT"}, datetime(2026, 1, 31, 8, tzinfo=UTC)), ({}, None)],
)
def test_a_reply_tells_when_it_was_made_unless_a_proxy_has_left_that_out(
    headers: dict[str, str], date: datetime | None
) -> None:
    assert service_date({"ResponseMetadata": {"HTTPHeaders": headers}}) == date
