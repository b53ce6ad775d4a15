"""A format of records' data by its text, as in the setting `payload_format` and the option `--decode`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from sublet.errors import SettingsError

DESCRIBED = (
    "json, jsonl, csv or csv:NAME,NAME, msgpack, avro:FILE, protobuf:FILE:MESSAGE, glue, confluent:URL, "
    "cloudwatch-logs, firehose, or your own module:function"
)


class FormatKind(StrEnum):
    JSON = "json"
    JSONL = "jsonl"
    """A document a line."""
    CSV = "csv"
    MSGPACK = "msgpack"
    AVRO = "avro"
    """Avro's binary encoding by a schema file, without framing."""
    PROTOBUF = "protobuf"
    """A message of a descriptor set, with or without a registry's framing."""
    GLUE = "glue"
    """Framed by AWS Glue Schema Registry, which has the schema."""
    CONFLUENT = "confluent"
    """Framed for Confluent's registry, or one that answers as it does."""
    CLOUDWATCH_LOGS = "cloudwatch-logs"
    FIREHOSE = "firehose"
    CUSTOM = "custom"
    """The user's own `module:function`."""


class PayloadFormat(NamedTuple):
    """A parsed format.

    file     of the schema: an .avsc, or a descriptor set (`protoc --descriptor_set_out --include_imports`)
    message  the Protobuf message's full name
    url      of the registry
    subject  the schema's name in its registry: Glue's `registry/schema`, Confluent's subject. A record of another one
             is refused; an encoder needs it
    columns  the names of CSV's columns; empty: a line is a list
    custom   `module:function`
    """

    kind: FormatKind
    file: str = ""
    message: str = ""
    url: str = ""
    subject: str = ""
    columns: tuple[str, ...] = ()
    custom: str = ""
    content: bytes = b""
    """The file's, for a process that may not have the file; empty: it is read where a decoder is made."""


JSON = PayloadFormat(FormatKind.JSON)

_ALONE = {
    kind.value: kind
    for kind in (
        *(FormatKind.JSON, FormatKind.JSONL, FormatKind.CSV, FormatKind.MSGPACK, FormatKind.GLUE),
        *(FormatKind.CLOUDWATCH_LOGS, FormatKind.FIREHOSE),
    )
}


_KINDS = frozenset(kind.value for kind in FormatKind)


def parsed_format(text: str, name: str = "payload_format") -> PayloadFormat:
    """Raises SettingsError for the setting or option `name`."""
    if text in _ALONE:
        return PayloadFormat(_ALONE[text])
    kind, _, rest = text.partition(":")
    found = _with_argument(kind, rest) if rest else None
    if found is None and kind not in _KINDS and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        found = PayloadFormat(FormatKind.CUSTOM, custom=text)
    if found is None:
        raise SettingsError(name, text, DESCRIBED)
    return found


def _with_argument(kind: str, rest: str) -> PayloadFormat | None:
    match kind:
        case FormatKind.CSV:
            columns = tuple(column.strip() for column in rest.split(","))
            is_named = all(columns) and len(set(columns)) == len(columns)
            return PayloadFormat(FormatKind.CSV, columns=columns) if is_named else None
        case FormatKind.AVRO:
            return PayloadFormat(FormatKind.AVRO, file=rest)
        case FormatKind.PROTOBUF:
            file, _, message = rest.rpartition(":")  # a file's name may have a colon, a message's does not
            return PayloadFormat(FormatKind.PROTOBUF, file=file, message=message) if file and message else None
        case FormatKind.GLUE:
            is_subject = re.fullmatch(r"[\w.$#-]+/[\w.$#-]+", rest)
            return PayloadFormat(FormatKind.GLUE, subject=rest) if is_subject else None
        case FormatKind.CONFLUENT:
            url, _, subject = rest.partition("#")
            is_url = re.fullmatch(r"https?://[^\s@/?]+(/[^\s@?]*)?", url)
            return PayloadFormat(FormatKind.CONFLUENT, url=url.rstrip("/"), subject=subject) if is_url else None
        case _:
            return None
