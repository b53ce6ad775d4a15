"""Says in which region and account a call did not find something.

The region is the client's. AWS' errors do not name it, and only Kinesis' error about a stream names the account. A
wrong region is the most frequent reason why a stream or a table is not found.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from sublet.aws.kinesis.cut_replies import AnyClient

REGION = "SubletRegion"
"""The key in an error's ResponseMetadata."""

_FIRST_REFUSAL = 300
_ACCOUNT = re.compile(r"\baccount (\d{12})\b")
"""Kinesis names the account in its message: "Stream orders under account 123456789012 not found."."""

C = TypeVar("C", bound=AnyClient)


def say_region(client: C) -> C:
    """Make each error of the client say its region, for `looked_in`."""
    service, region = client.meta.service_model.service_id.hyphenize(), client.meta.region_name

    def note(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
        if http_response.status_code >= _FIRST_REFUSAL:
            parsed.setdefault("ResponseMetadata", {})[REGION] = region

    client.meta.events.register(f"after-call.{service}", note, unique_id="sublet-region")
    return client


def looked_in(error: ClientError) -> str:
    """Says where a call looked, as in "in region eu-west-1 of account 123456789012", as far as it is known."""
    metadata: dict[str, Any] = {**error.response.get("ResponseMetadata", {})}
    account = _ACCOUNT.search(error.response.get("Error", {}).get("Message", ""))
    return in_region(metadata.get(REGION), account and account[1])


def in_region(region: str | None, account: str | None = None) -> str:
    """The same text for a known region. None: the one that the machine's configuration names."""
    if region is None:
        return "in this account and region"
    return f"in region {region} of {'this account' if account is None else f'account {account}'}"
