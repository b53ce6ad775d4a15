"""A bucket in memory that behaves as S3 documents general purpose buckets: an S3 client as far as a destination uses
one.

The last object put under a key is the current one. A delete may require that it is still the one that was read:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn

from botocore.exceptions import ClientError

LISTED_AT_ONCE = 7
"""Keys of a page; S3 has 1,000."""


@dataclass(slots=True)
class S3Model:
    """One bucket. `denied`: key prefixes whose objects may not be read. `ignores_conditions`: as S3 did until 2025, and
    as other stores do. `missing`: what a conditional delete answers for a missing object, which S3 does not document.
    """

    objects: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By key: ETag, contents."""
    denied: tuple[str, ...] = ()
    ignores_conditions: bool = False
    missing: str = "NoSuchKey"
    _etags: Any = field(default_factory=lambda: count(1))

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 - the client's
        self.objects[Key] = f'"{next(self._etags)}"', Body

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803
        if Key.startswith(self.denied):
            _refuse("AccessDenied", "GetObject")
        if Key not in self.objects:
            _refuse("NoSuchKey", "GetObject")
        etag, body = self.objects[Key]
        return {"Body": io.BytesIO(body), "ETag": etag, "ContentLength": len(body)}

    def head_object(self, *, Key: str, **_: object) -> None:  # noqa: N803
        """Its replies have no body, so an error has only a status."""
        if Key not in self.objects:
            _refuse("404", "HeadObject")

    def delete_object(self, *, Key: str, IfMatch: str | None = None, **_: object) -> None:  # noqa: N803
        if IfMatch is not None and not self.ignores_conditions:
            if Key not in self.objects:
                _refuse(self.missing, "DeleteObject")
            if self.objects[Key][0] != IfMatch:
                _refuse("PreconditionFailed", "DeleteObject")
        self.objects.pop(Key, None)

    def get_paginator(self, _: str) -> S3Model:
        return self

    def paginate(self, *, Prefix: str, **_: object) -> Iterator[dict[str, Any]]:  # noqa: N803
        """Each page as it is when it is requested."""
        after = ""
        while keys := sorted(key for key in self.objects if key.startswith(Prefix) and key > after):
            listed, after = keys[:LISTED_AT_ONCE], keys[:LISTED_AT_ONCE][-1]
            yield {"Contents": [{"Key": key} for key in listed]}
            if len(keys) <= LISTED_AT_ONCE:
                return


def client_of(model: object) -> Callable[[], Any]:
    """In the form in which a destination takes a client."""
    return lambda: model


def _refuse(code: str, operation: str) -> NoReturn:
    raise ClientError({"Error": {"Code": code, "Message": "as S3 says it"}}, operation)
