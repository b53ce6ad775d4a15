"""What AWS services wrap around records: CloudWatch Logs' subscriptions, and Firehose's deliveries."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable
from typing import Any

from sublet.errors import PayloadUnreadable
from sublet.payloads.compression import DECOMPRESSED_MAX, decompressed
from sublet.payloads.json_document import refuse_too_many

LOG_FIELDS = ("messageType", "owner", "logGroup", "logStream", "subscriptionFilters", "logEvents")


def cloudwatch_logs_reader(read_json: Callable[[bytes], Any]) -> Callable[[bytes], dict[str, Any]]:
    """Returns a function that reads what a subscription filter puts, after decompression: the log group, the log stream
    and their events. Raises PayloadUnreadable.
    """

    def read(data: bytes) -> dict[str, Any]:
        found = read_json(data)
        missing = [name for name in LOG_FIELDS if not isinstance(found, dict) or name not in found]
        if missing:
            raise PayloadUnreadable(f"not from a subscription of CloudWatch Logs: it has no {missing[0]}")
        return found  # type: ignore[no-any-return]

    return read


def firehose_reader(read_json: Callable[[bytes], Any]) -> Callable[[bytes], dict[str, Any]]:
    """Returns a function that reads what Firehose sends to an HTTP endpoint, or to a Lambda that transforms records:
    the same, with each record's data in place of its base64: JSON, or else text, or else bytes. Raises
    PayloadUnreadable.
    """

    def read(data: bytes) -> dict[str, Any]:
        found = read_json(data)
        records = found.get("records") if isinstance(found, dict) else None
        if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
            raise PayloadUnreadable("not a delivery of Firehose: it has no records")
        inside = _each_inside(each.get("data") for each in records)
        refuse_too_many(*inside)
        values = (_value(each, read_json) for each in inside)
        return {**found, "records": [{**each, "data": value} for each, value in zip(records, values, strict=True)]}

    return read


def _each_inside(texts: Iterable[object]) -> list[bytes]:
    """The data of each record. All of it may be as much as that of one."""
    found, left = [], DECOMPRESSED_MAX
    for text in texts:
        found.append(_inside(text, left))
        left = max(0, left - len(found[-1]))
    return found


def _inside(text: object, limit: int) -> bytes:
    if not isinstance(text, str):
        raise PayloadUnreadable("not a delivery of Firehose: a record has no data")
    try:
        return decompressed(binascii.a2b_base64(text.encode(), strict_mode=True), limit).data
    except (binascii.Error, UnicodeEncodeError):
        raise PayloadUnreadable("not a delivery of Firehose: a record's data is not base64") from None


def _value(data: bytes, read_json: Callable[[bytes], Any]) -> Any:
    try:
        return read_json(data)
    except PayloadUnreadable:
        return _text_or_bytes(data)


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
