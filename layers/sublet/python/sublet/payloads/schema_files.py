"""A format's schema file, read where the format is first used, or before."""

from __future__ import annotations

from pathlib import Path

from sublet.errors import SettingsError
from sublet.settings.payload_format import FormatKind, PayloadFormat

_KINDS = {
    FormatKind.AVRO: "an Avro schema's file",
    FormatKind.PROTOBUF: "a file that protoc --descriptor_set_out writes",
}


def content_of(form: PayloadFormat, name: str) -> bytes:
    """Raises SettingsError for the setting `name`."""
    if form.content:
        return form.content
    try:
        return Path(form.file).read_bytes()
    except OSError as fault:
        raise SettingsError(name, form.file, f"{_KINDS[form.kind]}; {fault}") from None


def text_of(form: PayloadFormat, name: str) -> str:
    """Raises SettingsError for the setting `name`."""
    try:
        return content_of(form, name).decode()
    except UnicodeDecodeError as fault:
        raise SettingsError(name, form.file, f"{_KINDS[form.kind]}; {fault}") from None


def with_content(form: PayloadFormat, name: str) -> PayloadFormat:
    """The format with its file's content, for other machines. Raises SettingsError."""
    return form._replace(content=content_of(form, name)) if form.file else form
