"""What Kinesis' error codes mean to us: a refused poll, a named error, or neither (botocore's own stands)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from sublet.aws.configuration_errors import NOT_CONFIGURED, credentials_refused, not_configured
from sublet.aws.faults import ACCESS_DENIED, CONNECTION_FAILED, code_of, is_transient
from sublet.errors import (
    StreamAccessDenied,
    StreamError,
    StreamKeyUnavailable,
    StreamNotFound,
    StreamUnavailable,
    SubletError,
)
from sublet.ports import PollRefusal

NOT_FOUND = "ResourceNotFoundException"
"""The stream or the shard: the code is the same."""

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


def stream_not_found(stream: str) -> StreamNotFound:
    return StreamNotFound(
        f"there is no stream {stream} in this account and region; check its name, and AWS_REGION"
    )


def no_reply(stream: str, failure: Exception) -> StreamUnavailable:
    """For one of CONNECTION_FAILED."""
    return StreamUnavailable(
        f"no reply about stream {stream}: {failure}; if this lasts, look at the way to Kinesis"
    )


def poll_refusal(error: ClientError) -> PollRefusal | None:
    """Why GetRecords brought nothing, if asking again will help.

    A fault of the service counts as throttling: both pass by themselves. An iterator that the service does
    not accept is opened anew, like an expired one (as KCL does).
    """
    code = code_of(error)
    if code == "ExpiredIteratorException" or code in BAD_ARGUMENT:
        return PollRefusal.ITERATOR_EXPIRED
    return PollRefusal.THROTTLED if is_transient(error) else None


def stream_error(error: ClientError, stream: str) -> SubletError | None:
    """The named error for codes that mean the same in every call."""
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code in _KEY_UNAVAILABLE:
        return StreamKeyUnavailable(
            f"stream {stream} cannot be decrypted ({code}: {said}); check its KMS key"
        )
    if code in ACCESS_DENIED:
        return StreamAccessDenied(f"not allowed on stream {stream}: {said}; grant it to this role")
    if code == "ResourceInUseException":
        return StreamNotFound(
            f"stream {stream} is being created or deleted ({said}); try again when it is active"
        )
    if is_transient(error):
        return StreamUnavailable(
            f"stream {stream} kept refusing ({code}: {said}); if this lasts, it has too many readers or too few shards"
        )
    return credentials_refused(error)


@contextmanager
def named_stream_errors(stream: str, not_found: Callable[[], StreamError] | None = None) -> Iterator[None]:
    """Raise a StreamError or AwsNotConfigured in its stead; `not_found` tells which of stream and shard is gone."""
    try:
        yield
    except ClientError as error:
        if code_of(error) == NOT_FOUND:
            raise (not_found() if not_found else stream_not_found(stream)) from error
        named = stream_error(error, stream)
        if named is None:
            raise
        raise named from error
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except CONNECTION_FAILED as failure:
        raise no_reply(stream, failure) from failure
