"""Decodes JSON replies without botocore's typed parsing, which would cost more than everything else that we do with
them.

botocore parses a reply member by member in Python: 21 us per record of GetRecords. msgspec needs 1 us and makes our
records directly. botocore's `before-parse` event passes the body to a listener, which may add to the response. We
decode the body there and leave an empty reply to parse. Errors, other formats and retries remain botocore's.

What botocore makes of that still fits the operation's model, because wrappers of botocore's calls, such as tracers',
look for what AWS always sends. An error of theirs would be ours.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

import msgspec

from sublet.aws.kinesis.cut_replies import AnyClient
from sublet.protocol.lease import AttributeValue

RAW = "SubletRawJson"
"""The key of the decoded body in the response; absent if botocore parsed the reply itself."""


EMPTY: Mapping[str, bytes] = MappingProxyType(
    {
        "GetRecords": b'{"Records":[]}',
        "PutRecords": b'{"Records":[]}',
        "Scan": b'{"Items":[],"Count":0,"ScannedCount":0}',
    }
)
"""Replies with nothing to parse, by operation: those whose replies are large."""


def keep_raw_json(client: AnyClient, operation: str, decode: Callable[[bytes], object] = msgspec.json.decode) -> None:
    """Make the client's responses to this operation hold the decoded body, under RAW, and of its own members only empty
    ones. Those of an operation that is not in EMPTY are left as they are.

    A body that `decode` refuses with a ValueError is left to botocore.
    """
    empty = EMPTY.get(operation)

    def take_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
        content_type = response_dict["headers"].get("content-type", "application/x-amz-json")
        body = response_dict["body"]
        if response_dict["status_code"] != 200 or "json" not in content_type or not body:
            return
        try:
            customized_response_dict[RAW] = decode(body)
        except ValueError:
            return  # a truncated reply, which cut_replies has retried
        response_dict["body"] = empty or body

    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(f"before-parse.{service}.{operation}", take_body, unique_id=f"sublet-raw-{operation}")


def decode_binary(item: dict[str, dict[str, Any]]) -> dict[str, AttributeValue]:
    """DynamoDB's attribute values, in which only binary differs on the wire: it is base64. Decoded in place."""
    for value in item.values():
        if "B" in value:
            value["B"] = a2b_base64(value["B"])
        elif "BS" in value:
            value["BS"] = [a2b_base64(text) for text in value["BS"]]
        elif "M" in value:
            decode_binary(value["M"])
        elif "L" in value:
            decode_binary(dict(enumerate(value["L"])))  # type: ignore[arg-type]
    return item  # type: ignore[return-value]


def service_date(reply: Mapping[str, Any]) -> datetime | None:
    """When the service answered, by its own clock: HTTP's Date, in whole seconds. None if a proxy has removed or
    mangled it."""
    date: str | None = reply["ResponseMetadata"]["HTTPHeaders"].get("date")
    try:
        at = None if date is None else parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else at.astimezone(UTC)
