"""boto3's errors as ours that say what to do: for a process that is not configured for AWS, and from a failure
destination."""

from __future__ import annotations

from typing import NoReturn

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigParseError,
    CredentialRetrievalError,
    InvalidConfigError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from sublet.aws.faults import code_of
from sublet.errors import AwsNotConfigured, DestinationRefused

NOT_CONFIGURED = (
    ConfigParseError,
    CredentialRetrievalError,
    InvalidConfigError,
    InvalidRegionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
"""Raised before anything is sent: while a client is made, or by the first call to be signed."""

_CREDENTIALS_REFUSED = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "UnrecognizedClientException",
    }
)


def not_configured(problem: Exception) -> AwsNotConfigured:
    """What to raise for an exception of NOT_CONFIGURED."""
    match problem:
        case NoRegionError():
            return AwsNotConfigured(
                "there is no AWS region; set AWS_DEFAULT_REGION (boto3 does not read AWS_REGION), "
                "or choose a profile that has one"
            )
        case NoCredentialsError():
            return AwsNotConfigured(
                "there are no AWS credentials; log in (`aws sso login`, `aws configure`), "
                "or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        case _:
            return AwsNotConfigured(f"AWS cannot be called from here: {problem}; check AWS_PROFILE and ~/.aws")


def credentials_refused(error: ClientError) -> AwsNotConfigured | None:
    """The error for credentials that the service rejected; None for any other error."""
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code not in _CREDENTIALS_REFUSED:
        return None
    return AwsNotConfigured(
        f"AWS does not accept these credentials ({code}: {said}); log in again, and check AWS_PROFILE, "
        "the region and this machine's clock"
    )


REFUSED = (ClientError, BotoCoreError)
"""The exceptions that a call to a failure destination may raise."""


def refused(what: str, problem: Exception) -> NoReturn:
    """Raises DestinationRefused, with what to do if the machine is not configured for AWS."""
    said = not_configured(problem) if isinstance(problem, NOT_CONFIGURED) else problem
    raise DestinationRefused(f"{what}: {said}") from problem
