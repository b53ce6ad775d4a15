"""Detects truncated replies, which botocore takes for complete ones.

botocore disables urllib3's check of a reply's length, and its JSON parser turns text that does not parse into an
empty reply. A truncated GetItem reply then means that there is no such row, and a truncated UpdateItem reply has no
attributes. (DynamoDB's replies also carry a checksum; after its last attempt botocore returns a reply that does not
match.)

So the length is compared here. A short reply becomes a service fault before botocore decides whether to retry.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

CUT_OFF = "RequestTimeout"
"""A code that botocore retries: the request may have been carried out, but its result is unknown."""

_SERVICE_FAULT = 500


class AnyClient(Protocol):
    """The part that every boto3 client has."""

    @property
    def meta(self) -> Any: ...


C = TypeVar("C", bound=AnyClient)


def refuse_cut_replies(client: C) -> C:
    """Make the client retry replies that are shorter than their Content-Length, and finally raise them as
    ClientError.
    """
    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register_first(f"needs-retry.{service}", _look, unique_id="sublet-cut-replies")
    return client


def _look(response: Any, **_: Any) -> None:
    """Runs before botocore's own handler of the event, which reads the status."""
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
    """The parsed reply that replaces a truncated one."""
    message = f"the reply was cut off after {length} of {promised} bytes"
    return {
        "Error": {"Code": CUT_OFF, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": _SERVICE_FAULT},
    }
