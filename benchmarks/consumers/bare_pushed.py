"""A bare loop over SubscribeToShard: botocore's call, the bytes from its socket, and the event's JSON. It has no leases
and writes nothing.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer

from benchmarks.consumers.tally import Order, Tally

NAME = "bare"
Tell = Callable[[Sequence[bytes]], None]
"""Gets the data of an event's records."""


def read(kinesis: Any, consumer_arn: str, shard_id: str, tell: Tell) -> None:
    position = {"Type": "TRIM_HORIZON"}
    while True:
        reply = kinesis.subscribe_to_shard(ConsumerARN=consumer_arn, ShardId=shard_id, StartingPosition=position)
        buffer, body = EventStreamBuffer(), vars(reply["EventStream"])["_raw_stream"]
        while data := body.read1(65536):
            buffer.add_data(data)
            message: Any
            for message in buffer:
                if message.headers[":event-type"] == "initial-response":
                    continue
                event = json.loads(message.payload)
                tell([b64decode(record["Data"]) for record in event["Records"]])
                position = {
                    "Type": "AFTER_SEQUENCE_NUMBER",
                    "SequenceNumber": event["ContinuationSequenceNumber"],
                }


def run(order: Order, tell: Tell) -> None:
    kinesis: Any = boto3.client("kinesis", config=Config(read_timeout=300))
    arn = kinesis.describe_stream_summary(StreamName=order.stream)["StreamDescriptionSummary"]["StreamARN"]
    consumer = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=NAME)["Consumer"]["ConsumerARN"]
    while kinesis.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]["ConsumerStatus"] != "ACTIVE":
        time.sleep(0.1)
    readers = [
        threading.Thread(target=read, args=(kinesis, consumer, shard["ShardId"], tell))
        for shard in kinesis.list_shards(StreamName=order.stream)["Shards"]
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


if __name__ == "__main__":
    order = Order.from_command_line()
    tally = Tally(order.expected, order.uncounted)
    run(order, lambda data: tally.add(len(data)))
