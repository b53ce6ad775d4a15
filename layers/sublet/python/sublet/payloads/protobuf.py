"""A Protobuf message by a descriptor set (`protoc --include_imports --descriptor_set_out=orders.desc orders.proto`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from sublet.errors import PayloadNotEncodable, PayloadUnreadable, SettingsError
from sublet.payloads.framing import (
    CONFLUENT_MAGIC,
    GLUE_HEADER,
    confluent_message,
    glue_message,
    of_confluent,
    of_glue,
)
from sublet.settings.payload_format import PayloadFormat


def message_type(content: bytes, form: PayloadFormat, name: str = "payload_format") -> Descriptor:
    """The message of a descriptor set. Raises SettingsError for the setting `name`."""
    file, message = form.file, form.message
    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError as fault:
        raise SettingsError(
            name, file, f"a descriptor set, which protoc --descriptor_set_out writes; {fault}"
        ) from None
    pool = DescriptorPool()
    try:
        for each in files:
            pool.Add(each)
        return pool.FindMessageTypeByName(message)
    except (KeyError, TypeError) as fault:
        known = sorted(_messages_in(files))
        raise SettingsError(
            name,
            message,
            f"a message of {file}: {', '.join(known[:20])}"
            if message not in known
            else f"in a descriptor set with all its imports (protoc --include_imports): {fault}",
        ) from None


def _messages_in(files: Any) -> Iterator[str]:
    for file in files:
        for message in file.message_type:
            yield f"{file.package}.{message.name}" if file.package else message.name


def protobuf_reader(of: Descriptor) -> Callable[[bytes], dict[str, Any]]:
    """Returns a function that reads a message as a dict by the fields' own names, and raises PayloadUnreadable.

    A message may be framed by Glue or for Confluent: no message begins with their first bytes, 3 and 0, which would be
    fields with the number 0. The framing must then say that it is this message.
    """
    make = GetMessageClass(of)
    glue, confluent = (glue_index(of),), confluent_index(of)

    def read(data: bytes) -> dict[str, Any]:
        if data[:1] == bytes((GLUE_HEADER,)):
            index, data = glue_message(of_glue(data).data)
            _check_index(index, glue, of)
        elif data[:1] == bytes((CONFLUENT_MAGIC,)):
            index, data = confluent_message(of_confluent(data).data)
            _check_index(index, confluent, of)
        try:
            return _fields(make.FromString(data))
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001 - a moment beyond the calendar, JSON's NaN: json_format raises anything
            raise PayloadUnreadable(f"not a {of.full_name}: {type(fault).__name__}: {str(fault)[:100]}") from None

    return read


def protobuf_writer(of: Descriptor) -> Callable[[Any], bytes]:
    """Returns a function that takes a message, or a dict as Protobuf's JSON has it, and raises PayloadNotEncodable."""
    make = GetMessageClass(of)

    def write(value: Any) -> bytes:
        try:
            message = value if isinstance(value, Message) else json_format.ParseDict(value, make())
            return message.SerializeToString()
        except Exception as fault:
            raise PayloadNotEncodable(f"the value is not a {of.full_name}: {fault}") from fault

    return write


def glue_index(of: Descriptor) -> int:
    """Glue's serializer numbers all messages of the schema, nested ones too, in the order of their full names."""
    names = sorted(each.full_name for each in _all_in(of.file.message_types_by_name.values()))
    return names.index(of.full_name)


def _all_in(messages: Any) -> Iterator[Descriptor]:
    for each in messages:
        yield each
        yield from _all_in(each.nested_types)


def confluent_index(of: Descriptor) -> tuple[int, ...]:
    """Confluent's serializer gives the path: the message's place in its file, or within the message around it."""
    outer = of.containing_type
    siblings = list(of.file.message_types_by_name.values()) if outer is None else list(outer.nested_types)
    place = [each.full_name for each in siblings].index(of.full_name)
    return (place,) if outer is None else (*confluent_index(outer), place)


def _check_index(found: tuple[int, ...], own: tuple[int, ...], of: Descriptor) -> None:
    if found != own:
        raise PayloadUnreadable(
            f"another message of its schema (index {'.'.join(map(str, found))}), not {of.full_name}"
        )


def _fields(message: Message) -> dict[str, Any]:
    """Fields that can be absent, and are, are None; the others have their defaults, as in Protobuf's own classes."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _is_present(message: Message, field: Any) -> bool:
    return not field.has_presence or message.HasField(field.name)


def _field(message: Message, field: Any) -> Any:
    if not _is_present(message, field):
        return None
    value, plain = getattr(message, field.name), _plain_of(field)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        plain = _plain_of(kind.fields_by_name["value"])
        return {key: plain(value[key]) for key in value}
    return [plain(each) for each in value] if _is_repeated(field) else plain(value)


def _is_repeated(field: Any) -> bool:
    is_repeated = getattr(field, "is_repeated", None)  # since 6.30; its forerunner `label` warns from then on
    return bool(field.label == field.LABEL_REPEATED if is_repeated is None else is_repeated)


def _plain_of(field: Any) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        return partial(_enum_name, {value.number: value.name for value in field.enum_type.values})
    if field.message_type is None:
        return _as_it_is
    return _well_known if field.message_type.full_name in WELL_KNOWN else _fields


def _as_it_is(value: Any) -> Any:
    return value


def _enum_name(names: Mapping[int, str], value: int) -> str | int:
    """A value that the schema does not have stays a number, as Protobuf keeps it."""
    return names.get(value, value)


WELL_KNOWN = frozenset(
    f"google.protobuf.{name}"
    for name in (
        *("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue"),
        *("BoolValue", "Int32Value", "UInt32Value", "Int64Value", "UInt64Value", "FloatValue", "DoubleValue"),
        *("StringValue", "BytesValue"),
    )
)
"""Messages with a meaning of their own: a moment, a duration, JSON, a value that may be absent."""


def _well_known(message: Message) -> Any:
    if message.DESCRIPTOR.name.endswith("Value") and message.DESCRIPTOR.name not in ("Value", "ListValue"):
        return getattr(message, "value")  # noqa: B009 - typed as any message
    return json_format.MessageToDict(message)
