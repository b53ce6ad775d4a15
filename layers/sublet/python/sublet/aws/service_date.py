"""When an AWS service answered, by its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any


def service_date(reply: Mapping[str, Any]) -> datetime | None:
    """HTTP's Date, in whole seconds; None where a proxy has left it out."""
    date: str | None = reply["ResponseMetadata"]["HTTPHeaders"].get("date")
    return None if date is None else parsedate_to_datetime(date)
