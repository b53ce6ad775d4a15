"""What AWS services wrap around records: CloudWatch Logs' subscriptions, and Firehose's deliveries."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

from sublet.errors import PayloadUnreadable
from sublet.payloads.compression import decompressed

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
        return {**found, "records": [{**each, "data": _inside(each.get("data"), read_json)} for each in records]}

    return read


def _inside(text: object, read_json: Callable[[bytes], Any]) -> Any:
    if not isinstance(text, str):
        raise PayloadUnreadable("not a delivery of Firehose: a record has no data")
    try:
        data = decompressed(binascii.a2b_base64(text.encode(), strict_mode=True)).data
    except (binascii.Error, UnicodeEncodeError):
        raise PayloadUnreadable("not a delivery of Firehose: a record's data is not base64") from None
    try:
        return read_json(data)
    except PayloadUnreadable:
        return _text_or_bytes(data)


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
