"""sublet on AWS as CDK constructs. `infra.kinesis_consumer.KinesisConsumer` is for a stack of your own."""
