"""Reads a Spark query's checkpoint folder in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from sublet.aws.faults import code_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NO_SUCH_THING = frozenset({"NoSuchKey", "NoSuchBucket", "404"})


class ObjectFolder:
    """A bucket's objects under a prefix. Reads are strongly consistent, as S3's are.

    Raises OSError, as a local folder does: FileNotFoundError for a missing object.
    """

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def names(self, folder: str) -> list[str]:
        """Names of the objects in a folder, without those in its subfolders."""
        prefix = f"{self._prefix}{folder}/"
        pages = self._client.get_paginator("list_objects_v2")
        try:
            return [
                entry["Key"].removeprefix(prefix)
                for page in pages.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/")
                for entry in page.get("Contents", ())
            ]
        except (ClientError, BotoCoreError) as error:
            raise _os_error(error) from error

    def text(self, path: str) -> str:
        try:
            reply = self._client.get_object(Bucket=self._bucket, Key=f"{self._prefix}{path}")
            return reply["Body"].read().decode()
        except (ClientError, BotoCoreError) as error:
            raise _os_error(error) from error


def _os_error(error: ClientError | BotoCoreError) -> OSError:
    is_missing = isinstance(error, ClientError) and code_of(error) in _NO_SUCH_THING
    return FileNotFoundError(str(error)) if is_missing else OSError(str(error))
