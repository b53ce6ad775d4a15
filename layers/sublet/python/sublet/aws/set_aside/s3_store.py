"""Sets records aside in an S3 folder, one object per batch, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sublet.aws.configuration_errors import REFUSED, refused
from sublet.aws.faults import code_of
from sublet.ports import KeptBatch, RemovalResult, StoreCounts
from sublet.protocol.failure_document import (
    OBJECT_SUFFIX,
    SetAsideBatch,
    application_of_key,
    object_bytes,
    object_key,
    place_of_key,
)
from sublet.protocol.failure_document_read import EXPANDED_MAX, NotADocument, batch_of_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

GONE = ("NoSuchKey", "404")
CHANGED = ("PreconditionFailed", "ConditionalRequestConflict", "412")
"""The key now has another object, or is being written."""


class S3Destination:
    """The FailureDestination and SetAsideStore ports over a bucket's folder. `kept` hides nothing from other
    redrives: the first to remove a batch carries on, and `remove` reports GONE to the others."""

    def __init__(self, client: Callable[[], S3Client], bucket: str, prefix: str) -> None:
        self._make_client = client
        self._bucket = bucket
        self._prefix = prefix

    @cached_property
    def _client(self) -> S3Client:
        return self._make_client()

    @property
    def _said(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def put(self, batch: SetAsideBatch) -> None:
        try:
            self._client.put_object(Bucket=self._bucket, Key=object_key(batch, self._prefix), Body=object_bytes(batch))
        except REFUSED as problem:
            refused(self._said, problem)

    def counted(self) -> StoreCounts:
        try:
            return StoreCounts(sum(1 for _ in self._keys()))
        except REFUSED as problem:
            refused(self._said, problem)

    def kept(self, application: str) -> Generator[KeptBatch, None, None]:
        """Lists one folder per shard, and sorts within it, because S3 lists numbers as text. Another application's
        batch is recognized by its name and not read, so a redrive needs no permission to read it."""
        try:
            for _, keys in groupby(self._keys(), lambda key: key.rpartition("/")[0]):
                for key in sorted(keys, key=place_of_key):
                    of = application_of_key(key)
                    kept = self._read(key) if of in (None, application) else _foreign(key, of)
                    if kept is not None:
                        yield kept
        except REFUSED as problem:
            refused(self._said, problem)

    def _keys(self) -> Iterator[str]:
        folder = f"{self._prefix.strip('/')}/" if self._prefix.strip("/") else ""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=folder)
        for page in pages:
            yield from (entry["Key"] for entry in page.get("Contents", ()) if entry["Key"].endswith(OBJECT_SUFFIX))

    def _read(self, key: str) -> KeptBatch | None:
        """Returns None if another redrive has removed the object since it was listed."""
        try:
            reply = self._client.get_object(Bucket=self._bucket, Key=key)
            size, version = reply["ContentLength"], reply["ETag"]
            if size > EXPANDED_MAX:
                return KeptBatch(key, None, f"object {key}: its {size:,} bytes are too many for a batch")
            return KeptBatch(key, batch_of_object(reply["Body"].read()), version=version)
        except NotADocument as problem:
            return KeptBatch(key, None, f"object {key}: {problem}")
        except ClientError as problem:
            if code_of(problem) in GONE:
                return None
            if not _is_its_own(problem):
                raise
            return KeptBatch(key, None, f"object {key} cannot be read: {problem}")

    def remove(self, kept: KeptBatch) -> RemovalResult:
        """Removes the object only if it is still the one that was read. A store that ignores conditions, as S3 itself
        did until 2025, removes whatever has the key, which since this version can only be another object with the same
        records.
        """
        try:
            self._client.delete_object(Bucket=self._bucket, Key=kept.name, IfMatch=kept.version)
        except ClientError as problem:
            if code_of(problem) in GONE:
                return RemovalResult.GONE
            if code_of(problem) in CHANGED:
                return RemovalResult.STAYS if self._is_there(kept.name) else RemovalResult.GONE
            refused(self._said, problem)
        except REFUSED as problem:
            refused(self._said, problem)
        return RemovalResult.REMOVED

    def _is_there(self, key: str) -> bool:
        """A condition also fails if there is no object."""
        try:
            self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as problem:
            return code_of(problem) not in GONE
        except REFUSED as problem:
            refused(self._said, problem)
        return True

    def hold(self) -> None:
        """Does nothing: objects are never hidden."""

    def leave(self, kept: KeptBatch) -> None:
        """Does nothing: objects are never hidden."""


def _foreign(key: str, application: str | None) -> KeptBatch:
    return KeptBatch(key, None, f"of the application {application}")


def _is_its_own(problem: ClientError) -> bool:
    """Whether only this object cannot be read: access is denied, it is archived, or its KMS key is unavailable."""
    code = code_of(problem)
    return code in ("AccessDenied", "InvalidObjectState") or code.startswith("KMS.")
