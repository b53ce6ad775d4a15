"""Records as people look at them: decoded by a format, and selected by their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sublet.errors import PayloadUnreadable
from sublet.operate.where import Where
from sublet.payloads.compression import decompressed
from sublet.payloads.decoding import Decoder, decoder_of, json_decoder
from sublet.payloads.readable_json import can_be_shown
from sublet.payloads.schema_registry import SchemaRegistry
from sublet.protocol.records import UserRecord
from sublet.settings.payload_format import PayloadFormat


class DecodedRecord(NamedTuple):
    """A record, and its data's value or why it has none.

    value     of the data; None if there is a problem
    problem   why it cannot be decoded; "" if it is
    is_plain  its own bytes say as much as the value: nothing is compressed or framed
    """

    record: UserRecord
    value: Any
    problem: str = ""
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class RecordDecoding:
    """How records are decoded, and which are wanted.

    is_stated  somebody has named the format, so what is not of it is shown as bytes, with the reason. Otherwise it is
               JSON, or text, or bytes
    """

    decode: Decoder
    is_stated: bool = False
    where: Where | None = None

    def of(self, record: UserRecord) -> DecodedRecord | None:
        """Returns None for a record that the condition leaves out. Raises SchemaRegistryError."""
        value, problem = None, ""
        try:
            value = self.decode(record.data)
        except PayloadUnreadable as why:
            problem = str(why)
        else:
            problem = "" if can_be_shown(value) else "nested too deeply to be shown"
        if problem:
            is_wanted = self.where is None or self.where.matches(None)
            return DecodedRecord(record, None, problem) if is_wanted else None
        if self.where is not None and not self.where.matches(value):
            return None
        is_plain = not self.is_stated and decompressed(record.data).data is record.data
        return DecodedRecord(record, value, "", is_plain)


def decoding_of(
    form: PayloadFormat | None, registry: SchemaRegistry | None, where: str | None = None, *, name: str = "decode"
) -> RecordDecoding:
    """By the format that somebody has named, or JSON. Raises SettingsError for the format or the condition."""
    condition = None if where is None else Where(where)
    if form is None:
        return RecordDecoding(json_decoder(), where=condition)
    return RecordDecoding(decoder_of(form, registry, name=name), is_stated=True, where=condition)
