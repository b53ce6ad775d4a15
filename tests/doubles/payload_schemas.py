"""Schemas of payloads for tests: an order in Avro and in Protobuf, and the registry that has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

VERSION = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
ORDER_TEXT = json.dumps(ORDER)


def order(number: int = 7) -> dict[str, Any]:
    return {"id": number, "price": 10.5, "country": "DE", "tags": ["new", "ünïcode"]}


def avro_schema_file(folder: Path, schema: object = ORDER) -> Path:
    file = folder / "orders.avsc"
    file.write_text(json.dumps(schema))
    return file


_TYPES = FieldDescriptorProto


def _field(message: DescriptorProto, name: str, number: int, kind: Any, **more: Any) -> None:
    message.field.add(name=name, number=number, type=kind, label=more.pop("label", _TYPES.LABEL_OPTIONAL), **more)


def descriptor_set_file(folder: Path) -> Path:
    """proto3: an order with every kind of field that there is. Two messages stand before it, one of them nested."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3", dependency=[TIMESTAMP_FILE.name])
    address = file.message_type.add(name="Address")
    address.nested_type.add(name="Line")
    of = file.message_type.add(name="Order")
    state = of.enum_type.add(name="State")
    for number, name in enumerate(("OPEN", "PAID")):
        state.value.add(name=name, number=number)
    _field(of, "id", 1, _TYPES.TYPE_INT64)
    _field(of, "price", 2, _TYPES.TYPE_DOUBLE)
    _field(of, "country", 3, _TYPES.TYPE_STRING, proto3_optional=True, oneof_index=0)
    of.oneof_decl.add(name="_country")
    _field(of, "tags", 4, _TYPES.TYPE_STRING, label=_TYPES.LABEL_REPEATED)
    _field(of, "state", 5, _TYPES.TYPE_ENUM, type_name=".shop.Order.State")
    _field(of, "picture", 6, _TYPES.TYPE_BYTES)
    _field(of, "at", 7, _TYPES.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    entry = of.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, _TYPES.TYPE_STRING)
    _field(entry, "value", 2, _TYPES.TYPE_INT32)
    _field(of, "counts", 8, _TYPES.TYPE_MESSAGE, label=_TYPES.LABEL_REPEATED, type_name=".shop.Order.CountsEntry")
    timestamp = FileDescriptorProto.FromString(TIMESTAMP_FILE.serialized_pb)
    path = folder / "orders.desc"
    path.write_bytes(FileDescriptorSet(file=[timestamp, file]).SerializeToString())
    return path
