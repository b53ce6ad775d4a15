"""A bare loop over SubscribeToShard: botocore's call, what comes from its socket, and the event's JSON. It has no leases and
writes nothing.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from typing import Any

import boto3
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer

from benchmarks.consumers.arrivals import Arrivals
from benchmarks.consumers.tally import Order

ORDER = Order.from_command_line()
ARRIVALS = Arrivals(ORDER.expected)
NAME = "bare"


def read(kinesis: Any, consumer_arn: str, shard_id: str) -> None:
    position = {"Type": "TRIM_HORIZON"}
    while True:
        reply = kinesis.subscribe_to_shard(
            ConsumerARN=consumer_arn, ShardId=shard_id, StartingPosition=position
        )
        buffer, body = EventStreamBuffer(), vars(reply["EventStream"])["_raw_stream"]
        while data := body.read1(65536):
            buffer.add_data(data)
            message: Any
            for message in buffer:
                if message.headers[":event-type"] == "initial-response":
                    continue
                event = json.loads(message.payload)
                ARRIVALS.add(b64decode(record["Data"]) for record in event["Records"])
                position = {
                    "Type": "AFTER_SEQUENCE_NUMBER",
                    "SequenceNumber": event["ContinuationSequenceNumber"],
                }


def main() -> None:
    kinesis: Any = boto3.client("kinesis", config=Config(read_timeout=300))
    arn = kinesis.describe_stream_summary(StreamName=ORDER.stream)["StreamDescriptionSummary"]["StreamARN"]
    consumer = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=NAME)["Consumer"]["ConsumerARN"]
    while (
        kinesis.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]["ConsumerStatus"]
        != "ACTIVE"
    ):
        time.sleep(0.1)
    readers = [
        threading.Thread(target=read, args=(kinesis, consumer, shard["ShardId"]))
        for shard in kinesis.list_shards(StreamName=ORDER.stream)["Shards"]
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


if __name__ == "__main__":
    main()
