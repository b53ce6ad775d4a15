"""`sublet.encoder`: makes records' data, for a producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sublet.settings.payload_format import FormatKind, parsed_format

if TYPE_CHECKING:  # not loaded by `import sublet`
    from sublet.payloads.encoding import Encoder


def encoder(payload_format: str) -> Encoder:
    """Returns a function that encodes a value, so that consumers with this format decode it:

        encode = sublet.encoder("glue:shop/orders")
        producer.put(order.customer, encode({"id": 7, "price": 10.5}))

    payload_format  as the setting: json, jsonl, csv, msgpack, avro:FILE, protobuf:FILE:MESSAGE. With a registry it
                    names the schema, glue:REGISTRY/SCHEMA or confluent:URL#SUBJECT, whose latest version is looked up
                    here

    The function raises PayloadNotEncodable for a value that does not fit. This raises SettingsError, and with a
    registry SchemaRegistryError.
    """
    from sublet.payloads.encoding import encoder_of  # noqa: PLC0415 - only for programs that encode

    form, registry = parsed_format(payload_format), None
    if form.kind in (FormatKind.GLUE, FormatKind.CONFLUENT):
        from sublet.aws.schema_registries import registry_of  # noqa: PLC0415 - would load boto3
        from sublet.system.clock import SystemClock  # noqa: PLC0415 - only for a registry

        registry = registry_of(form, SystemClock())
    return encoder_of(form, registry)
