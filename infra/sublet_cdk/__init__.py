"""sublet on AWS as CDK constructs."""
