"""What DynamoDB's errors mean to us, for the lease table and the sightings' table alike; what else it says stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from sublet.aws.faults import CONNECTION_FAILED, code_of, is_transient
from sublet.errors import LeaseTableKeyUnexpected, LeaseTableNotFound, LeaseTableUnavailable


@contextmanager
def named_table_errors(what: str, table: str, key: str) -> Iterator[None]:
    """Raise LeaseTableNotFound, LeaseTableKeyUnexpected or LeaseTableUnavailable, with `what` the table should be."""
    try:
        yield
    except CONNECTION_FAILED as failure:
        raise LeaseTableUnavailable(f"no reply about {what} {table}: {failure}") from failure
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            raise LeaseTableNotFound(f"there is no {what} {table} in this account and region") from error
        if code_of(error) == "ValidationException" and " key" in str(error):
            raise LeaseTableKeyUnexpected(other_key(what, table, key, str(error))) from error
        if is_transient(error):
            raise LeaseTableUnavailable(f"{what} {table} kept refusing: {error}") from error
        raise


def other_key(what: str, table: str, key: str, because: str) -> str:
    return f"table {table} is no {what}, whose key is {key} (string): {because}"
