"""Which records the handler wants: `filter_criteria`, on their data and on what the stream says of them. The others are done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sublet.protocol.records import UserRecord
from sublet.settings import Settings
from sublet.settings.filter_criteria import Pattern, any_matches, patterns_of

DATA = "data"


class RecordFilter:
    """As ESM filters: on `data`, as JSON where it is some and a pattern asks for its fields, and on the metadata of the event."""

    def __init__(self, settings: Settings) -> None:
        text = settings.filter_criteria
        self._patterns: tuple[Pattern, ...] = () if text is None else patterns_of(text)
        self._stream_arn = settings.stream_arn

    def wanted(self, records: Iterable[UserRecord]) -> list[UserRecord]:
        return [record for record in records if any_matches(self._patterns, self._event(record))]

    def __bool__(self) -> bool:
        """Whether there is anything to filter by."""
        return bool(self._patterns)

    def _event(self, record: UserRecord) -> dict[str, Any]:
        return {
            DATA: _data(record.data),
            "partitionKey": record.partition_key,
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": record.approximate_arrival_timestamp.timestamp(),
            "kinesisSchemaVersion": "1.0",
            "eventSource": "aws:kinesis",
            "eventName": "aws:kinesis:record",
            "eventSourceARN": self._stream_arn,
        }


def _data(data: bytes) -> Any:
    """An object of JSON as that, any other text as text. What is neither matches no pattern on `data`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
