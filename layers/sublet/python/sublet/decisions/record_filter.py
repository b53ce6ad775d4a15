"""Which records the handler wants: `filter_criteria`, on their data and on what the stream says of them. The others are done.

A record whose content makes filtering raise (JSON that is nested too deep to be read) is neither: it is handed over by itself, in
a call that fails, so that the failure policy decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sublet.errors import RecordUnreadable
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord
from sublet.settings import Settings
from sublet.settings.filter_criteria import DATA, Pattern, any_matches, patterns_of


class Fault(NamedTuple):
    """What a record's content raised on its way to the handler, and while doing what."""

    doing: str
    failure: Exception

    def error(self, record: UserRecord) -> RecordUnreadable:
        """A new one for each call that fails by it: raised time after time, one alone would grow a traceback without end."""
        error = RecordUnreadable(
            f"record {record.checkpoint}: {self.doing} raised {type(self.failure).__name__}"
        )
        error.__cause__ = self.failure
        return error.with_traceback(self.failure.__traceback__)


Faults = Mapping[Checkpoint, Fault]
"""By the record's position."""


class Filtered(NamedTuple):
    """In order: the records that are wanted, and those that raised what is in `faults`."""

    records: list[UserRecord]
    faults: Faults


class RecordFilter:
    """As ESM filters: on `data`, as JSON where it is some and a pattern asks for its fields, and on the metadata of the event."""

    def __init__(self, settings: Settings) -> None:
        text = settings.filter_criteria
        self._patterns: tuple[Pattern, ...] = () if text is None else patterns_of(text)
        self._stream_arn = settings.stream_arn

    def wanted(self, records: Iterable[UserRecord], faults: Faults) -> Filtered:
        """`faults`: what is known already; such a record is kept without a look at what it holds."""
        kept, found = [], dict(faults)
        for record in records:
            try:
                if (faults and record.checkpoint in faults) or self._wants(record):
                    kept.append(record)
            except Exception as failure:  # noqa: BLE001 - whatever the content of a record makes of JSON
                kept.append(record)
                found.setdefault(record.checkpoint, Fault("applying filter_criteria", failure))
        return Filtered(kept, found)

    def _wants(self, record: UserRecord) -> bool:
        return any_matches(self._patterns, self._event(record))

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


def apart(records: Sequence[UserRecord], faults: Faults) -> Iterator[Sequence[UserRecord]]:
    """The records as batches, in order: one with a fault is a batch of its own, since its neighbours can be handed over."""
    start = 0
    for place, record in enumerate(records) if faults else ():
        if record.checkpoint in faults:
            if start < place:
                yield records[start:place]
            yield records[place : place + 1]
            start = place + 1
    if start < len(records):
        yield records[start:]


def _data(data: bytes) -> Any:
    """An object of JSON as that, any other text as text. What is neither matches no pattern on `data`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        value = _json(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a whole number of more digits than Python reads: JSON has no such limit
        return json.loads(text, parse_int=float)
