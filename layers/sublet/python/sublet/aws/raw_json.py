"""Decodes JSON replies without botocore's typed parsing, which would cost more than everything else that we do with
them.

botocore parses a reply member by member in Python: 21 us per record of GetRecords. msgspec needs 1 us and makes our
records directly. botocore's `before-parse` event passes the body to a listener, which may add to the response. We
decode the body there and leave nothing to parse. Errors, other formats and retries remain botocore's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

RAW = "SubletRawJson"
"""The key of the decoded body in the response; absent if botocore parsed the reply itself."""


class _Client(Protocol):
    """The part of every boto3 client that is used here."""

    @property
    def meta(self) -> Any: ...


def keep_raw_json(
    client: _Client, operation: str, decode: Callable[[bytes], object] = msgspec.json.decode
) -> None:
    """Make the client's responses to this operation hold only the decoded body, under RAW.

    A body that `decode` refuses with a ValueError is left to botocore.
    """

    def take_body(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
        content_type = response_dict["headers"].get("content-type", "application/x-amz-json")
        body = response_dict["body"]
        if response_dict["status_code"] != 200 or "json" not in content_type or not body:
            return
        try:
            customized_response_dict[RAW] = decode(body)
        except ValueError:
            return  # a truncated reply, which cut_replies has retried
        response_dict["body"] = b"{}"

    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(
        f"before-parse.{service}.{operation}", take_body, unique_id=f"sublet-raw-{operation}"
    )
