"""A stack with one SparkPipeline, described by CDK context.

    cdk deploy -c stack=pipeline -c name=orders-lake -c stream_arn=arn:... -c bucket=lake \\
        -c output_prefix=orders -c schema=orders.json -c every="rate(30 minutes)"

CONTEXT lists the keys. Any other is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct
from sublet.settings import StartPosition
from sublet.spark.options import Leases
from sublet.spark.pipeline.settings import Sink
from sublet_cdk.alarm_topic import topic_of
from sublet_cdk.context import context_of, number, one_of, required, stream_arn, texts_by_name
from sublet_cdk.spark_job import RELEASE
from sublet_cdk.spark_pipeline import SparkPipeline

REQUIRED = {
    "name": "the pipeline's name",
    "stream_arn": "an existing stream",
    "bucket": "the name of an existing bucket for the tables",
    "vpc_id": "a network that reaches Kinesis (looked up at synth, with credentials)",
}
TEXTS = {
    "release_label": f"EMR's release, with Spark 4; {RELEASE} by default",
    "output_prefix": "the tables' place in the bucket; tables by default",
    "checkpoint_prefix": "the runs' checkpoint; _checkpoint in the tables' place by default",
    "image_uri": "a custom image in ECR",
    "namespace": "only for iceberg: the catalog's, such as glue.orders",
    "schema": "DDL, or a .json file",
    "code": "the directory of the transform's module",
    "transform": "module:function",
    "merge_key": "columns that identify a row of the table merged",
    "order_by": "columns that say which of its records is later",
    "delete_when": "a condition in SQL: which record deletes its row",
    "maintenance": "the schedule of `sublet pipeline maintain`, or never; rate(1 day) by default, not for parquet",
    "application": "the application whose lease table `leases` uses",
    "dependencies": "a folder of dependencies that was built elsewhere",
}
CONTEXT = {
    **REQUIRED,
    **TEXTS,
    "sink": ", ".join(Sink),
    "leases": ", ".join(Leases),
    "start": "TRIM_HORIZON, LATEST or AT_TIMESTAMP:<ISO 8601>",
    "options": "more options of the source, as a JSON object",
    "spark": "more Spark properties, as a JSON object",
    "every": "the schedule, as EventBridge writes it: rate(1 hour)",
    "executors_max": "a number",
    "architecture": "arm64 or x86_64",
    "vpc_subnets": "private (default), or isolated if the network has endpoints",
    "stream_key_arn": "the stream's KMS key, if it is your own",
    "bucket_key_arn": "the bucket's KMS key, if it is your own",
    "lease_table_key_arn": "the KMS key of the lease table of `application`",
    "alarm_topic_arn": "an existing SNS topic for the alarms",
    "alarm_email": "an address for the alarms, which gets a mail to confirm, of a topic that the stack creates",
    "monitoring": "lean or full: four alarms, on AWS' own metrics (default); none: no alarms",
}
"""Context keys."""

DEFAULTS = {
    "sink": "parquet",
    "leases": "none",
    "every": "rate(1 hour)",
    "architecture": "arm64",
    "vpc_subnets": "private",
}

SUBNETS = {
    "private": None,
    "isolated": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
}


class PipelineStack(Stack):
    """The stack. `overrides` go to SparkPipeline directly."""

    def __init__(
        self, scope: Construct, construct_id: str, *, overrides: Mapping[str, Any] | None = None, **stack: Any
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.context = DEFAULTS | context_of(self, CONTEXT)
        name, arn, bucket, _ = (required(self.context, key, meaning) for key, meaning in REQUIRED.items())
        properties = self._texts() | self._chosen() | self._resources()
        self.pipeline = SparkPipeline(
            self,
            "Pipeline",
            name=name,
            stream=kinesis.Stream.from_stream_arn(self, "Stream", stream_arn(arn)),
            bucket=s3.Bucket.from_bucket_name(self, "Bucket", bucket),
            **{**properties, **(overrides or {})},
        )
        CfnOutput(self, "ApplicationId", value=self.pipeline.application.attr_application_id)
        CfnOutput(self, "JobRoleArn", value=self.pipeline.job_role.role_arn)
        CfnOutput(self, "RunsUrl", value=self.pipeline.runs.queue_url)

    def _texts(self) -> dict[str, Any]:
        return {key: self.context[key] for key in TEXTS if key in self.context}

    def _chosen(self) -> dict[str, Any]:
        architectures = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
        executors, start = number(self.context, "executors_max"), self.context.get("start")
        return {
            "sink": one_of(self.context, "sink", {str(sink): sink for sink in Sink}),
            "leases": one_of(self.context, "leases", {str(how): how for how in Leases}),
            "start": StartPosition.parse(start) if start else None,
            "options": texts_by_name(self.context, "options"),
            "spark": texts_by_name(self.context, "spark"),
            "schedule": self.context["every"],
            "monitoring": self.context.get("monitoring"),
            "architecture": one_of(self.context, "architecture", architectures),
        } | ({"executors_max": executors} if executors is not None else {})

    def _resources(self) -> dict[str, Any]:
        return {
            "vpc": ec2.Vpc.from_lookup(self, "Network", vpc_id=self.context["vpc_id"]),
            "vpc_subnets": one_of(self.context, "vpc_subnets", SUBNETS),
            **{name: self._key(name) for name in ("stream_key", "bucket_key", "lease_table_key")},
            "alarm_topic": topic_of(self, self.context.get("alarm_topic_arn"), self.context.get("alarm_email")),
        }

    def _key(self, name: str) -> kms.IKey | None:
        arn = self.context.get(f"{name}_arn")
        return kms.Key.from_key_arn(self, name.replace("_", "-"), arn) if arn else None
