"""Turns Kinesis' error codes into a refused poll or a named error. An unknown code becomes a StreamError with Kinesis'
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from sublet.aws.configuration_errors import NOT_CONFIGURED, credentials_refused, not_configured
from sublet.aws.faults import ACCESS_DENIED, CONNECTION_FAILED, code_of, is_throttled, is_transient
from sublet.aws.region_in_errors import looked_in
from sublet.errors import (
    ShardNotFound,
    StreamAccessDenied,
    StreamError,
    StreamKeyUnavailable,
    StreamNotFound,
    StreamUnavailable,
    StreamUnreachable,
    SubletError,
)
from sublet.ports import PollRefusal, Refusal, Unanswered

NOT_FOUND = "ResourceNotFoundException"
"""Kinesis gives this code for a missing stream and for a missing shard."""

BAD_ARGUMENT = frozenset({"InvalidArgumentException", "ValidationException"})

EXPIRED_LISTING = frozenset({"ExpiredNextTokenException"})

_KEY_UNAVAILABLE = frozenset(
    {
        "KMSAccessDeniedException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KMSNotFoundException",
        "KMSOptInRequired",
    }
)


def stream_not_found(stream: str, error: ClientError) -> StreamNotFound:
    return StreamNotFound(
        f"there is no stream {stream} {looked_in(error)}; check its name, and the region (AWS_DEFAULT_REGION)"
    )


def shard_not_found(stream: str, shard_id: str) -> ShardNotFound:
    return ShardNotFound(
        f"stream {stream} has no shard {shard_id}; check its name. If it existed, its records are past retention and "
        "lost"
    )


def no_reply(stream: str, failure: Exception) -> StreamUnreachable:
    """What to raise for an exception of CONNECTION_FAILED."""
    return StreamUnreachable(
        f"no reply about stream {stream}: {failure}; if this lasts, check the network path to that host: Kinesis has "
        "hosts for "
        'each account besides the region\'s (docs/permissions.md, "Closed networks")'
    )


def poll_refusal(error: ClientError) -> Refusal | None:
    """The refusal that GetRecords' error means, if polling again will help; otherwise None.

    If the service does not accept an iterator, a new one is opened, as after expiry. KCL does the same.
    """
    code = code_of(error)
    if code == "ExpiredIteratorException" or code in BAD_ARGUMENT:
        return PollRefusal.ITERATOR_EXPIRED
    if is_throttled(error):
        return PollRefusal.THROTTLED
    return Unanswered(str(error)) if is_transient(error) else None


def stream_error(error: ClientError, stream: str) -> SubletError | None:
    """The named error for a code that means the same in every call."""
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code in _KEY_UNAVAILABLE:
        return StreamKeyUnavailable(f"stream {stream} cannot be decrypted ({code}: {said}); check its KMS key")
    if code in ACCESS_DENIED:
        return StreamAccessDenied(f"not allowed on stream {stream}: {said}; grant it to this role")
    if code == "ResourceInUseException":
        return StreamNotFound(f"stream {stream} is being created or deleted ({said}); try again when it is active")
    if is_transient(error):
        return StreamUnavailable(
            f"stream {stream} keeps refusing ({code}: {said}); if this lasts, it has too many readers or too few shards"
        )
    return credentials_refused(error)


@contextmanager
def named_stream_errors(stream: str, not_found: Callable[[ClientError], StreamError] | None = None) -> Iterator[None]:
    """Translate boto3's errors into a StreamError or AwsNotConfigured. `not_found` finds out whether stream or shard
    is gone."""
    try:
        yield
    except ClientError as error:
        if code_of(error) == NOT_FOUND:
            raise (not_found(error) if not_found else stream_not_found(stream, error)) from error
        named = stream_error(error, stream)
        raise named or StreamError(f"Kinesis' error about stream {stream}: {error}") from error
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except CONNECTION_FAILED as failure:
        raise no_reply(stream, failure) from failure
