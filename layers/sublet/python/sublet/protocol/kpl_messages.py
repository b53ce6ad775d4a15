"""The KPL's protobuf messages, and the same bytes read as columns.

    message AggregatedRecord {                        message Columns {
      repeated bytes  partition_key_table = 1;          repeated string partition_key_table = 1;
      repeated bytes  explicit_hash_key_table = 2;      repeated bytes  explicit_hash_key_table = 2;
      repeated Record records = 3;                      optional RecordColumns records = 3;
    }                                                 }
    message Record {                                  message RecordColumns {
      required uint64 partition_key_index = 1;          repeated uint64 partition_key_index = 1;
      optional uint64 explicit_hash_key_index = 2;      repeated uint64 explicit_hash_key_index = 2;
      required bytes  data = 3;                         repeated bytes  data = 3;
      repeated Tag    tags = 4;                       }
    }
    message Tag {
      required bytes  key = 1;
      optional bytes  value = 2;
    }

On the left is the KPL's own format, but for what the wire does not show: texts are declared as bytes, since some
protobuf runtimes refuse to read strings that are not UTF-8 (Java's does not). Tags are not used, but one without its
key makes the whole aggregate plain.

On the right is why deaggregation is fast. Protobuf promises that a singular message which occurs many times
is merged, and that merging concatenates repeated fields: so this one `records` holds a whole aggregate as
three columns, without a Python object for each record. It cannot say where one record ends, so `kpl_format`
first proves that columns line up: there are as many entries as records, and every record has one (that is
what `required` checks). The proof is by the message Proof, AggregatedRecord without its tables; where records
have explicit hash keys, also by StrictProof, which requires one of every record. Partition keys are read as text
at once, which is cheaper than to decode them afterwards; these messages are proto3, whose parser refuses what
is not UTF-8.

The classes are made here and not by protoc: generated code refuses every protobuf runtime older than its
compiler, and it registers its names in a pool of the process, where a second copy of the KPL's messages makes
the import fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


class Record(Protocol):
    partition_key_index: int
    explicit_hash_key_index: int
    data: bytes

    def HasField(self, field_name: str) -> bool: ...  # noqa: N802
    def IsInitialized(self) -> bool: ...  # noqa: N802


class Tags(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802


class Records(Protocol):
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Record]: ...


class AggregatedRecord(Protocol):
    partition_key_table: Sequence[bytes]
    explicit_hash_key_table: Sequence[bytes]
    records: Records

    def SerializeToString(self) -> bytes: ...  # noqa: N802


class Proof(Protocol):
    records: Records

    def SerializeToString(self) -> bytes: ...  # noqa: N802


class RecordColumns(Protocol):
    partition_key_index: Sequence[int]
    explicit_hash_key_index: Sequence[int]
    data: Sequence[bytes]


class Columns(Protocol):
    partition_key_table: Sequence[str]
    explicit_hash_key_table: Sequence[bytes]
    records: RecordColumns


def serialize(
    partition_keys: Sequence[bytes],
    explicit_hash_keys: Sequence[bytes],
    records: Sequence[tuple[int, int | None, bytes]],
) -> bytes:
    """An AggregatedRecord: both tables, then each record's indexes into them and its data."""
    return cast(
        "bytes",
        _AGGREGATED_RECORD(
            partition_key_table=partition_keys,
            explicit_hash_key_table=explicit_hash_keys,
            records=[
                {"partition_key_index": key, "explicit_hash_key_index": explicit, "data": data}
                for key, explicit, data in records
            ],
        ).SerializeToString(),
    )


_PACKAGE = "sublet.kpl"
_SCALARS = ("BYTES", "STRING", "UINT64")


def _field(number: int, label: str, kind: str, name: str) -> FieldDescriptorProto:
    field = FieldDescriptorProto(
        name=name, number=number, label=FieldDescriptorProto.Label.Value(f"LABEL_{label}")
    )
    if kind in _SCALARS:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind}")
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    return field


_TAGS = _field(4, "REPEATED", "Tag", "tags")


def _record(
    name: str, index: str, explicit_index: str, data: str, *more: FieldDescriptorProto
) -> DescriptorProto:
    """A message of Record's first three fields, with the labels given, and of `more`."""
    fields = (
        _field(1, index, "UINT64", "partition_key_index"),
        _field(2, explicit_index, "UINT64", "explicit_hash_key_index"),
        _field(3, data, "BYTES", "data"),
    )
    return DescriptorProto(name=name, field=(*fields, *more))


def _aggregated_record(name: str, keys: str, label: str, record: str) -> DescriptorProto:
    """A message of AggregatedRecord's three fields: the tables, and `records`, of the kinds given."""
    fields = (
        _field(1, "REPEATED", keys, "partition_key_table"),
        _field(2, "REPEATED", "BYTES", "explicit_hash_key_table"),
        _field(3, label, record, "records"),
    )
    return DescriptorProto(name=name, field=fields)


def _proof(name: str, record: str) -> DescriptorProto:
    """A message of AggregatedRecord's `records` alone, of the kind given."""
    return DescriptorProto(name=name, field=(_field(3, "REPEATED", record, "records"),))


_FILES = (
    FileDescriptorProto(
        name="sublet/kpl.proto",
        package=_PACKAGE,
        syntax="proto2",
        message_type=(
            DescriptorProto(
                name="Tag",
                field=(_field(1, "REQUIRED", "BYTES", "key"), _field(2, "OPTIONAL", "BYTES", "value")),
            ),
            _record("Record", "REQUIRED", "OPTIONAL", "REQUIRED", _TAGS),
            _record("UntaggedRecord", "REQUIRED", "OPTIONAL", "REQUIRED"),
            DescriptorProto(name="Tags", field=(_TAGS,)),
            _record("StrictRecord", "REQUIRED", "REQUIRED", "REQUIRED"),
            _aggregated_record("AggregatedRecord", "BYTES", "REPEATED", "Record"),
            _proof("Proof", "Record"),
            _proof("StrictProof", "StrictRecord"),
        ),
    ),
    FileDescriptorProto(
        name="sublet/kpl_columns.proto",
        package=_PACKAGE,
        syntax="proto3",
        message_type=(
            _record("RecordColumns", "REPEATED", "REPEATED", "REPEATED"),
            _aggregated_record("Columns", "STRING", "OPTIONAL", "RecordColumns"),
        ),
    ),
)
_POOL = DescriptorPool()
for _file in _FILES:
    _POOL.AddSerializedFile(_file.SerializeToString())


def _message_class(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_AGGREGATED_RECORD = _message_class("AggregatedRecord")

parse_aggregated_record: Callable[[bytes | memoryview], AggregatedRecord] = _AGGREGATED_RECORD.FromString
"""The message, or DecodeError. Parsing does not check required fields: serializing does, with EncodeError."""

parse_proof: Callable[[bytes | memoryview], Proof] = _message_class("Proof").FromString
"""The same bytes, with their tables left unread."""

parse_strict_proof: Callable[[bytes | memoryview], Proof] = _message_class("StrictProof").FromString
"""The same, but serializing demands an explicit hash key of every record too."""

parse_columns: Callable[[bytes | memoryview], Columns] = _message_class("Columns").FromString
"""The same bytes as columns, or DecodeError."""

parse_untagged_record: Callable[[bytes | memoryview], Record] = _message_class("UntaggedRecord").FromString
"""A Record with its tags left unread."""

parse_tags: Callable[[bytes | memoryview], Tags] = _message_class("Tags").FromString
"""A Record's tags alone; serializing demands a key of each."""
