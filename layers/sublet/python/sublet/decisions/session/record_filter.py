"""Which records the handler wants, by `filter_criteria` on their data and metadata. The others count as finished.

If a record's content makes filtering raise (JSON nested too deep to parse), the record is handed over alone, in a call
that fails, so that the failure policy decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sublet.errors import RecordUnreadable
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord
from sublet.settings import Settings
from sublet.settings.filter_criteria import DATA, any_matches, parsed, patterns_of


class RecordFault(NamedTuple):
    """An exception that a record's content raised on its way to the handler, and in which step."""

    doing: str
    failure: Exception

    def error(self, record: UserRecord) -> RecordUnreadable:
        """A new error for each call that it makes fail: a single error's traceback would grow each time it is
        raised.
        """
        error = RecordUnreadable(f"record {record.checkpoint}: {self.doing} raised {type(self.failure).__name__}")
        error.__cause__ = self.failure
        return error.with_traceback(self.failure.__traceback__)


Faults = Mapping[Checkpoint, RecordFault]
"""Faults by the record's position."""


class FilteredRecords(NamedTuple):
    """The records that are wanted, and those in `faults`, in order."""

    records: list[UserRecord]
    faults: Faults


class RecordFilter:
    """Filters like ESM: on the fields of `data`, which are then parsed as JSON, on its text, and on the event's
    metadata.
    """

    def __init__(self, settings: Settings) -> None:
        text = settings.filter_criteria
        patterns = () if text is None else patterns_of(text)
        self._of_fields = tuple(pattern for pattern in patterns if pattern.is_of_fields)
        self._of_text = tuple(pattern for pattern in patterns if not pattern.is_of_fields)
        self._needs_metadata = any(pattern.wanted.fields.keys() != {DATA} for pattern in patterns)
        self._stream_arn = settings.stream_arn

    def wanted(self, records: Iterable[UserRecord], faults: Faults) -> FilteredRecords:
        """`faults`: those known already. A record with a fault is kept without looking at its content."""
        kept, found = [], dict(faults)
        for record in records:
            try:
                if (faults and record.checkpoint in faults) or self._wants(record):
                    kept.append(record)
            except Exception as failure:  # noqa: BLE001 - the content of a record can make JSON raise anything
                kept.append(record)
                found.setdefault(record.checkpoint, RecordFault("applying filter_criteria", failure))
        return FilteredRecords(kept, found)

    def _wants(self, record: UserRecord) -> bool:
        text = _text(record.data)
        event = self._metadata(record) if self._needs_metadata else {}
        if self._of_text and any_matches(self._of_text, event | {DATA: text}):
            return True
        fields = _fields(text) if self._of_fields else None
        return fields is not None and any_matches(self._of_fields, event | {DATA: fields})

    def __bool__(self) -> bool:
        """Whether there is a filter."""
        return bool(self._of_fields or self._of_text)

    def _metadata(self, record: UserRecord) -> dict[str, Any]:
        return {
            "partitionKey": record.partition_key,
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": Decimal(repr(record.approximate_arrival_timestamp.timestamp())),
            "kinesisSchemaVersion": "1.0",
            "eventSource": "aws:kinesis",
            "eventName": "aws:kinesis:record",
            "eventSourceARN": self._stream_arn,
        }


def apart(records: Sequence[UserRecord], faults: Faults) -> Iterator[Sequence[UserRecord]]:
    """The records as batches, in order: a record with a fault is a batch of its own, so that its neighbours can be
    handled.
    """
    start = 0
    for place, record in enumerate(records) if faults else ():
        if record.checkpoint in faults:
            if start < place:
                yield records[start:place]
            yield records[place : place + 1]
            start = place + 1
    if start < len(records):
        yield records[start:]


def _text(data: bytes) -> str | None:
    """None for bytes that are no text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _fields(text: str | None) -> dict[str, Any] | None:
    """None for what is not a JSON object."""
    try:
        value = None if text is None else parsed(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
