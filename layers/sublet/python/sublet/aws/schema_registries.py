"""The SchemaRegistry port over AWS Glue, and which registry a format needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.configuration_errors import NOT_CONFIGURED
from sublet.aws.faults import ACCESS_DENIED, CONNECTION_FAILED, code_of, is_transient
from sublet.errors import (
    SchemaNotUsable,
    SchemaRegistryAccessDenied,
    SchemaRegistryError,
    SchemaRegistryUnavailable,
)
from sublet.payloads.decoding import Decoder, decoder_of_setting
from sublet.payloads.registry_cache import CachedRegistry
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage, SchemaRegistry
from sublet.ports import Clock
from sublet.settings import Settings
from sublet.settings.payload_format import FormatKind, PayloadFormat, parsed_format

if TYPE_CHECKING:
    from boto3.session import Session

AVAILABLE = "AVAILABLE"


def registry_of(
    form: PayloadFormat | str, clock: Clock, region: str | None = None, session: Session | None = None
) -> SchemaRegistry | None:
    """The registry of the format, asked once for each version; None if the format needs none. Raises SettingsError."""
    form = parsed_format(form) if isinstance(form, str) else form
    if form.kind is FormatKind.GLUE:
        return CachedRegistry(GlueRegistry(clients.glue_client(region, session)), clock.steady)
    if form.kind is FormatKind.CONFLUENT:
        from sublet.system.confluent_registry import ConfluentRegistry  # noqa: PLC0415 - only for this format

        return CachedRegistry(ConfluentRegistry(form.url), clock.steady)
    return None


def decoder_of_settings(settings: Settings, clock: Clock) -> Decoder | None:
    """What `record.decoded()` decodes by, for a program without an application's ports. Raises SettingsError."""
    text = settings.payload_format
    return None if text is None else decoder_of_setting(text, registry_of(text, clock))


class GlueRegistry:
    """By glue:GetSchemaVersion alone."""

    def __init__(self, client: clients.SchemaVersionClient) -> None:
        self._client = client

    def version(self, version: str) -> RegisteredSchema | None:
        try:
            UUID(version)
        except ValueError:
            raise SchemaRegistryError(f"schema version {version!r} is not a UUID") from None
        return self._ask(version, SchemaVersionId=version)

    def latest(self, subject: str) -> RegisteredSchema | None:
        registry, slash, schema = subject.partition("/")
        if not slash or "/" in schema:
            raise SchemaRegistryError(f"schema {subject!r} is not of the form registry/schema")
        named = {"RegistryName": registry, "SchemaName": schema}
        return self._ask(subject, SchemaId=named, SchemaVersionNumber={"LatestVersion": True})

    def _ask(self, what: str, **wanted: Any) -> RegisteredSchema | None:
        try:
            found = self._client.get_schema_version(**wanted)
        except ClientError as refused:
            if code_of(refused) == "EntityNotFoundException":
                return None
            raise _named(what, refused) from refused
        except CONNECTION_FAILED as lost:
            raise SchemaRegistryUnavailable(f"schema {what}: Glue cannot be reached: {type(lost).__name__}") from lost
        except NOT_CONFIGURED as missing:
            raise SchemaRegistryAccessDenied(f"schema {what}: {missing}") from missing
        return _registered(found)


def _named(what: str, refused: ClientError) -> SchemaRegistryError:
    if code_of(refused) in ACCESS_DENIED:
        return SchemaRegistryAccessDenied(f"schema {what}: this role may not call glue:GetSchemaVersion")
    kind = SchemaRegistryUnavailable if is_transient(refused) else SchemaRegistryError
    return kind(f"schema {what}: Glue answers {code_of(refused)}")


def _registered(found: Any) -> RegisteredSchema | None:
    """None for a version that failed Glue's check, or is being checked or deleted: no record can be written with it."""
    if found.get("Status", AVAILABLE) != AVAILABLE:
        return None
    language = found["DataFormat"]
    if language not in SchemaLanguage.__members__:
        raise SchemaNotUsable(f"it is of {language}, which is not known")
    return RegisteredSchema(
        found["SchemaVersionId"],
        SchemaLanguage(language),
        found["SchemaDefinition"],
        found.get("SchemaArn", "").partition(":schema/")[2],
    )
