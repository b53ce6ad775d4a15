"""sublet on AWS, as CDK constructs. `KinesisConsumer` is the one to put in a stack of your own."""
