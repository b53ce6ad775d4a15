"""Adds up orders whose schema is in a registry: Avro, JSON or Protobuf, decoded by sublet's setting `payload_format`.

    glue                                     AWS Glue Schema Registry: Avro or JSON, by the version that a record names
    glue:shop/orders                         the same, and only of this schema
    confluent:https://registry:8081          the same with Confluent's framing
    protobuf:orders.desc:shop.Order          Protobuf by a descriptor set, with Glue's or Confluent's framing or none

The handler is the same for all. A record that cannot be read, or whose version the registry does not have, raises
PayloadUnreadable, which names it; a registry that does not answer raises SchemaRegistryUnavailable. Both fail the call,
so nothing is skipped: `maximum_retry_attempts`, `bisect_batch_on_function_error` and `on_failure` set the one record
aside, and `sublet redrive` brings it back once its schema is registered. Let `maximum_retry_attempts` outlast an outage
of the registry, which would otherwise set aside every record whose version is not known yet.

Delivery is at least once. Producers write by the schema's latest version:

    encode = sublet.encoder("glue:shop/orders")
    producer.put(order["country"], encode(order))
"""

from __future__ import annotations

from sublet import Batch


def handle(batch: Batch) -> None:
    total = sum(record.decoded()["price"] for record in batch.records)
    print(f"{batch.shard_id}: {len(batch.records)} orders, {total:.2f}")
