"""The SchemaRegistry port over Confluent's HTTP API, which Apicurio, Karapace and Redpanda have too."""

from __future__ import annotations

import base64
import json
import netrc
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from sublet.errors import (
    SchemaNotUsable,
    SchemaRegistryAccessDenied,
    SchemaRegistryError,
    SchemaRegistryUnavailable,
)
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage

SECONDS = 10
ANSWER_MAX = 8 * 2**20
"""Bytes: more is no schema."""


class ConfluentRegistry:
    """`url`: where the API begins. A user and a password come from ~/.netrc, so that no setting has them."""

    def __init__(self, url: str) -> None:
        self._url = url

    def version(self, version: str) -> RegisteredSchema | None:
        found = self._get(f"/schemas/ids/{quote(version, safe='')}")
        return None if found is None else _registered(version, found)

    def latest(self, subject: str) -> RegisteredSchema | None:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if found is None else _registered(str(found.get("id")), found)._replace(subject=subject)

    def _get(self, path: str) -> dict[str, Any] | None:
        url = self._url + path
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", **_authorization(url)}
        try:
            with urlopen(Request(url, headers=headers), timeout=SECONDS) as answer:  # noqa: S310 - http or https: `formats` checks
                return _document(url, answer.read(ANSWER_MAX + 1))
        except HTTPError as refused:
            refused.close()
            if refused.code == 404:
                return None
            raise _named(url, refused.code) from None
        except (OSError, HTTPException) as lost:
            raise SchemaRegistryUnavailable(f"{url} cannot be reached: {lost}") from lost


def _authorization(url: str) -> dict[str, str]:
    with suppress(OSError, netrc.NetrcParseError):
        found = netrc.netrc().authenticators(urlsplit(url).hostname or "")
        if found is not None:
            token = base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()
            return {"Authorization": f"Basic {token}"}
    return {}


def _named(url: str, status: int) -> SchemaRegistryError:
    if status in (401, 403):
        return SchemaRegistryAccessDenied(f"{url} answers {status}: a user and a password for it belong into ~/.netrc")
    if status in (400, 422):
        return SchemaNotUsable(f"{url} answers {status}")
    kind = SchemaRegistryUnavailable if status == 429 or status >= 500 else SchemaRegistryError
    return kind(f"{url} answers {status}")


def _document(url: str, answer: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(answer)
        if isinstance(found, dict) and len(answer) <= ANSWER_MAX:
            return found
    raise SchemaRegistryError(f"{url} does not answer as a schema registry: is it the URL where the API begins?")


def _registered(version: str, found: dict[str, Any]) -> RegisteredSchema:
    """Avro is the language of an answer that names none. References to other subjects are not followed."""
    language, definition = found.get("schemaType", "AVRO"), found.get("schema")
    if not isinstance(definition, str) or not version.isdecimal():
        raise SchemaRegistryError(f"the answer for schema {version:.50} has no schema, or no id")
    if language not in SchemaLanguage.__members__:
        raise SchemaNotUsable(f"it is of {language!r:.50}, which is not known")
    return RegisteredSchema(version, SchemaLanguage(language), definition)
