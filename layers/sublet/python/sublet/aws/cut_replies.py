"""Replies that were cut off on their way, which botocore takes for whole ones.

botocore switches off urllib3's check of a reply's length, and its JSON parser answers a text that does not parse with an empty
reply. A cut GetItem then says that there is no such row, a cut UpdateItem has no attributes. (DynamoDB's replies carry a
checksum as well; after the last attempt botocore returns what does not match it.)

So the length is compared here. A short reply becomes a fault of the service before botocore decides whether to try again.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

CUT_OFF = "RequestTimeout"
"""A code that botocore tries again: the request may have been carried out, the answer is unknown."""

_SERVICE_FAULT = 500


class _Client(Protocol):
    """The part of every boto3 client that is used here."""

    @property
    def meta(self) -> Any: ...


C = TypeVar("C", bound=_Client)


def refuse_cut_replies(client: C) -> C:
    """From now on a reply of the client that is shorter than it says is retried, and in the end raised as a ClientError."""
    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register_first(f"needs-retry.{service}", _look, unique_id="sublet-cut-replies")
    return client


def _look(response: Any, **_: Any) -> None:
    """Before botocore's own handler of the event, which looks at the status."""
    if response is None:
        return
    http, parsed = response
    promised = http.headers.get("content-length")
    if promised is None or not promised.isdecimal() or len(http.content) >= int(promised):
        return
    http.status_code = _SERVICE_FAULT
    parsed.clear()
    parsed.update(cut_off(len(http.content), promised))


def cut_off(length: int, promised: str) -> dict[str, Any]:
    """What a reply says instead that was cut off."""
    message = f"the reply was cut off after {length} of {promised} bytes"
    return {
        "Error": {"Code": CUT_OFF, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": _SERVICE_FAULT},
    }
