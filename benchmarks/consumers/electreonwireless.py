"""electreonwireless-native-aws-kcl-py. It does not deaggregate: for aggregates it counts the stream records."""

from __future__ import annotations

import asyncio
import os

from native_aws_kcl_py import (
    AwsConfig,
    InitializationInput,
    KinesisConsumerConfig,
    LeaseLostInput,
    ProcessRecordsInput,
    RetrievalConfig,
    Scheduler,
    ShardEndedInput,
    ShardRecordProcessor,
    ShardRecordProcessorFactory,
    ShutdownRequestedInput,
)

from benchmarks.consumers.tally import POLL_INTERVAL_MILLIS, POLL_LIMIT, Order, Tally


def main(order: Order) -> None:
    tally = Tally(order.expected)

    class Counting(ShardRecordProcessor):
        async def initialize(self, _: InitializationInput) -> None: ...

        async def process_records(self, given: ProcessRecordsInput) -> None:
            tally.add(len(given.records))
            if given.records:
                await given.checkpointer.checkpoint()

        async def lease_lost(self, _: LeaseLostInput) -> None: ...

        async def shard_ended(self, given: ShardEndedInput) -> None:
            await given.checkpointer.checkpoint()

        async def shutdown_requested(self, given: ShutdownRequestedInput) -> None:
            await given.checkpointer.checkpoint()

    class Factory(ShardRecordProcessorFactory):
        def create_processor(self) -> ShardRecordProcessor:
            return Counting()

    aws = AwsConfig(
        region=os.environ["AWS_REGION"],
        kinesis_endpoint=os.environ["AWS_ENDPOINT_URL_KINESIS"],
        dynamodb_endpoint=os.environ.get("AWS_ENDPOINT_URL_DYNAMODB", os.environ["AWS_ENDPOINT_URL"]),
    )
    retrieval = RetrievalConfig(
        stream_name=order.stream,
        max_records=POLL_LIMIT,
        idle_time_between_reads_millis=POLL_INTERVAL_MILLIS,
    )
    config = KinesisConsumerConfig(
        aws=aws,
        application_name=order.application,
        stream_name=order.stream,
        record_processor_factory=Factory(),
        retrieval=retrieval,
    )
    asyncio.run(Scheduler(config).run())


if __name__ == "__main__":
    main(Order.from_command_line())
