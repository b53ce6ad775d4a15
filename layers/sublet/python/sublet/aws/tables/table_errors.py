"""Turns DynamoDB's errors on the lease table and the sightings table into named errors. A refused condition stays as it
is: it is an expected answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from sublet.aws.configuration_errors import NOT_CONFIGURED, credentials_refused, not_configured
from sublet.aws.faults import ACCESS_DENIED, CONDITION_FAILED, CONNECTION_FAILED, code_of, is_transient
from sublet.aws.region_in_errors import looked_in
from sublet.errors import (
    LeaseTableAccessDenied,
    LeaseTableError,
    LeaseTableKeyUnexpected,
    LeaseTableNotFound,
    LeaseTableUnavailable,
    SubletError,
)
from sublet.protocol.lease_attributes import LEASE_KEY

RESTORE = (
    "If it was deleted, restore it from DynamoDB's backup (docs/on-call.md, "
    '"A lease table that is gone"): an empty one starts at start_position'
)


@contextmanager
def named_table_errors(what: str, table: str, key: str) -> Iterator[None]:
    """Translate boto3's errors into a LeaseTableError or AwsNotConfigured. `what` names the table's role."""
    try:
        yield
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except CONNECTION_FAILED as failure:
        raise LeaseTableUnavailable(
            f"no reply about {what} {table}: {failure}; if this lasts, check the network path to DynamoDB"
        ) from failure
    except ClientError as error:
        if code_of(error) == CONDITION_FAILED:
            raise
        raise _named(error, what, table, key) from error


def _named(error: ClientError, what: str, table: str, key: str) -> SubletError:
    code = code_of(error)
    if code == "ResourceNotFoundException":
        advice = f". {RESTORE}" if key == LEASE_KEY else ""
        return LeaseTableNotFound(
            f"there is no {what} {table} {looked_in(error)}; check its name, and the region "
            f"(AWS_DEFAULT_REGION). `sublet run` or the stack creates it{advice}"
        )
    if code == "ValidationException" and " key" in str(error):
        return LeaseTableKeyUnexpected(other_key(what, table, key, str(error)))
    if code in ACCESS_DENIED:
        return LeaseTableAccessDenied(f"not allowed on {what} {table}: {error}; grant it to this role")
    if is_transient(error):
        return LeaseTableUnavailable(f"{what} {table} keeps refusing: {error}; if this lasts, raise its capacity")
    return credentials_refused(error) or LeaseTableError(f"DynamoDB's error about {what} {table}: {error}")


def other_key(what: str, table: str, key: str, because: str) -> str:
    return (
        f"table {table} is not a {what} (with the key {key}, a string): {because}; "
        "choose an application name that no other table has"
    )
