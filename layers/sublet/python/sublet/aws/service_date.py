"""When an AWS service answered, by its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any


def service_date(reply: Mapping[str, Any]) -> datetime | None:
    """HTTP's Date, in whole seconds; None if a proxy has removed or mangled it."""
    date: str | None = reply["ResponseMetadata"]["HTTPHeaders"].get("date")
    try:
        at = None if date is None else parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else at.astimezone(UTC)
