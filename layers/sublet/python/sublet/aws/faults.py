"""Which failures pass by themselves. botocore has retried them by the time that we see them."""

from __future__ import annotations

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, IncompleteReadError  # noqa: A004
from botocore.parsers import ResponseParserError

CONNECTION_FAILED = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseParserError)
"""The reply did not come, or not whole: reset connections, timeouts, unreachable endpoints."""

_SERVICE_FAULT = 500

_THROTTLED = frozenset(
    {
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
    }
)


CONDITION_FAILED = "ConditionalCheckFailedException"
"""DynamoDB's way to say no: expected of a conditional write."""

ACCESS_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"})


def code_of(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def is_transient(error: ClientError) -> bool:
    """Throttled, or a fault of the service."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return is_throttled(error) or status >= _SERVICE_FAULT


def is_throttled(error: ClientError) -> bool:
    """More was asked for than the service gives."""
    return code_of(error) in _THROTTLED
