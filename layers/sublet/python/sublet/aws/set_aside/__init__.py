"""Failure destinations on SQS, SNS and S3, and reading from them again."""
