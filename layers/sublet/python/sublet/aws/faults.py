"""Which failures are transient. botocore has already retried them when we see them."""

from __future__ import annotations

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, IncompleteReadError  # noqa: A004
from botocore.parsers import ResponseParserError

CONNECTION_FAILED = (ConnectionError, HTTPClientError, IncompleteReadError, ResponseParserError)
"""No complete reply arrived: connection reset, timeout, unreachable endpoint."""

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
"""How DynamoDB refuses a conditional write; an expected answer."""

ACCESS_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "AuthorizationError", "UnauthorizedOperation"})


def code_of(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def is_transient(error: ClientError) -> bool:
    """Throttled, or a fault of the service."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return is_throttled(error) or status >= _SERVICE_FAULT


def is_throttled(error: ClientError) -> bool:
    return code_of(error) in _THROTTLED
