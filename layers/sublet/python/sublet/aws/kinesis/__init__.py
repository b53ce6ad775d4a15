"""The ports over Kinesis: read, list, describe and put."""
