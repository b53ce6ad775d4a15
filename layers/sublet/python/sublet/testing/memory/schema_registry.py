"""The SchemaRegistry port in memory."""

from __future__ import annotations

from uuid import UUID

from sublet.errors import SchemaRegistryAccessDenied, SchemaRegistryError, SchemaRegistryUnavailable
from sublet.ports import RegisteredSchema


class MemorySchemaRegistry:
    """As strict as Glue: an id is a UUID, a subject is `registry/schema`, a version is never changed.

    asked           every id and subject that was asked for
    is_denied       the role lacks glue:GetSchemaVersion
    is_unavailable  no call is answered
    """

    def __init__(self, *schemas: RegisteredSchema) -> None:
        self.asked: list[str] = []
        self.is_denied = self.is_unavailable = False
        self._versions: dict[str, RegisteredSchema] = {}
        for schema in schemas:
            self.register(schema)

    def register(self, schema: RegisteredSchema) -> None:
        if str(UUID(schema.version)) != schema.version or schema.subject.count("/") != 1:
            raise ValueError(f"{schema.version} of {schema.subject} is not Glue's: a UUID of registry/schema")
        if self._versions.setdefault(schema.version, schema) != schema:
            raise ValueError(f"schema version {schema.version} exists, and never changes")

    def version(self, version: str) -> RegisteredSchema | None:
        self._ask(version)
        try:
            UUID(version)
        except ValueError:
            raise SchemaRegistryError(f"schema version {version!r} is not a UUID") from None
        return self._versions.get(version)

    def latest(self, subject: str) -> RegisteredSchema | None:
        self._ask(subject)
        if subject.count("/") != 1:
            raise SchemaRegistryError(f"schema {subject!r} is not of the form registry/schema")
        return next((each for each in reversed(self._versions.values()) if each.subject == subject), None)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.is_denied:
            raise SchemaRegistryAccessDenied(f"schema {what}: this role may not call glue:GetSchemaVersion")
        if self.is_unavailable:
            raise SchemaRegistryUnavailable(f"schema {what}: the registry cannot be reached")
