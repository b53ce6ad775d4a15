"""Creates queues that people read: of undelivered events, and of ended runs."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sublet_cdk.nag import acknowledge


def add_queue(scope: Construct, construct_id: str, reason: str) -> sqs.Queue:
    """Adds a queue that keeps messages for 14 days, the longest that SQS allows. `reason`: why it has no dead-letter
    queue.
    """
    queue = sqs.Queue(
        scope,
        construct_id,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
    )
    acknowledge(queue, "SQS3", reason)
    return queue
