"""The port to a schema registry: the schemas that producers write their records with. `ports` has it too."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol


class SchemaLanguage(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class RegisteredSchema(NamedTuple):
    """A version of a schema. It never changes once it is registered.

    version     Glue's UUID, or Confluent's id in decimal
    definition  the schema's text
    subject     Glue's `registry/schema`; Confluent's, which does not tell it with an id
    """

    version: str
    language: SchemaLanguage
    definition: str
    subject: str = ""


class SchemaRegistry(Protocol):
    """Glue's or Confluent's. Raises SchemaRegistryAccessDenied, SchemaRegistryUnavailable, SchemaNotUsable and, if what
    is there cannot be understood, SchemaRegistryError.
    """

    def version(self, version: str) -> RegisteredSchema | None:
        """The schema version with this id; None if the registry has none, or none that is available."""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The latest version of a schema by its name; None if the registry has none."""
