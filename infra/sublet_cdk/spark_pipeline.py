"""`SparkPipeline`: `sublet pipeline` on EMR Serverless, run on a schedule, for your own stack.

    SparkPipeline(
        self, "Lake",
        name="orders-lake", stream=stream, bucket=bucket,
        schema="id BIGINT NOT NULL, price DECIMAL(9,2)", schedule=ScheduleExpression.rate(Duration.minutes(30)),
    )

Each run reads what is available and ends (`--available-now`), and the next one continues from its checkpoint. Wrong
properties are refused at synth, by name. More permissions, such as Glue's, go to `pipeline.job_role`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aws_cdk import Duration, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from constructs import Construct
from sublet.operate.rules.role_needs import READS_SCHEMAS, is_glue_s
from sublet.settings import SIGHTINGS_SUFFIX, StartPosition
from sublet.spark.options import Leases
from sublet.spark.pipeline.settings import Sink
from sublet_cdk import roles
from sublet_cdk.dependencies import EMR, built
from sublet_cdk.log_groups import add_log_group, keep_logs
from sublet_cdk.monitoring_level import Level, MonitoringLevel, check_unheard, level_of
from sublet_cdk.nag import acknowledge_wildcard
from sublet_cdk.places import check_stream
from sublet_cdk.property_help import with_property_help
from sublet_cdk.property_types import typed_properties
from sublet_cdk.queues import add_queue
from sublet_cdk.several_streams import acknowledge_patterns, of_a_pipeline
from sublet_cdk.spark_alarms import PipelineSubject, PipelineThresholds, WatchedRuns, add_pipeline_alarms, lag_of
from sublet_cdk.spark_arguments import PipelineArguments
from sublet_cdk.spark_assets import PipelineAssets, add_assets
from sublet_cdk.spark_job import (
    PYTHON,
    RELEASE,
    Fleet,
    WorkerSize,
    check_release,
    spark_properties,
    start_job_run,
)
from sublet_cdk.spark_network import worker_network
from sublet_cdk.spark_schedule import add_schedule, add_schedule_role, maintenance_schedule

QUEUE_TIMEOUT = Duration.hours(12)
"""EMR's maximum. Runs share a checkpoint, so they never overlap: a run that is due during another one waits, and then
has little to do."""

IDLE_TIMEOUT = Duration.minutes(1)
"""How soon after a run the application stops. It keeps no workers, so nothing is paid for between runs."""


@with_property_help()
class SparkPipeline(Construct):
    """One pipeline: one stream, or several, into one set of tables.

    name                    the name of the EMR application, and of its runs
    stream                  new, or imported by its ARN; or else:
    streams                 several, as in the source's option `stream` (docs/spark.md): names, ARNs, name patterns and
                            tags. The tables' column `stream` says which one a row is of
    bucket, output_prefix   where the tables go
    checkpoint_prefix       in the same bucket; `<output_prefix>/_checkpoint` by default. It belongs to these tables
    release_label           EMR's release, with Spark 4
    image_uri               a custom image in ECR, which EMR Serverless may pull, instead of the release's own
    sink, namespace         parquet, delta or iceberg; for iceberg, `namespace` names the tables (glue.orders)
    schema                  the records' columns: DDL, a .json file in Spark's form, or an Avro schema (.avsc). Without
                            it, only raw records
    format                  what the records are, as `sublet pipeline --format`: json (default), avro, glue ... With
                            glue, the role may read schema versions
    code, transform         a folder, and the `module:function` in it that turns a batch into tables
    merge_key, order_by, delete_when
                            a table `merged` with one row for each value of these columns: its latest record
    application, leases     whose lease table, and how to use it: none, or follow its checkpoints
    start                   where the first run begins
    options, spark          more options of the source (docs/spark.md), and of the Spark session
    schedule                an expression, or its text; if its gaps exceed alarm_thresholds' silence_hours, raise
                            those
    maintenance             when `sublet pipeline maintain` runs: an expression, or its text, or "never". By default
                            once a day for delta, and for iceberg if `spark` has Iceberg's extension, which it needs
    run_timeout             a run that takes longer is stopped and counts as failed; the next one continues after it
    driver, executor, executors_max
                            the workers of a run: their sizes, and how many executors there may be
    architecture            the workers' processors: ARM_64, which costs a fifth less, or X86_64
    vpc                     the workers' network, which must reach Kinesis; EMR Serverless's own does not
    vpc_subnets             by default its private subnets with internet access (a NAT). Isolated ones work too if the
                            network has endpoints for Kinesis, S3, CloudWatch Logs and, with an `application`,
                            DynamoDB
    security_groups         the workers' groups; by default one without inbound rules is created
    log_retention           how long CloudWatch keeps the log's lines
    log_key                 a KMS key for the log group, as for KinesisConsumer
    stream_key, bucket_key, lease_table_key
                            the KMS keys of the stream, the bucket and the lease table, if they are neither AWS's nor
                            known to the given construct
    alarm_topic             gets a message when an alarm fires and when it is over
    alarm_thresholds        when the alarms fire
    monitoring              "lean" or "full": four alarms, all on AWS' own metrics; "none": no alarms. By default as for
                            ConsumerMonitoring
    dependencies, python    a folder that was built elsewhere, and the interpreter that it was built for
    """

    @typed_properties
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        bucket: s3.IBucket,
        stream: kinesis.IStream | None = None,
        streams: str | None = None,
        release_label: str = RELEASE,
        output_prefix: str = "tables",
        checkpoint_prefix: str | None = None,
        image_uri: str | None = None,
        sink: Sink = Sink.PARQUET,
        namespace: str | None = None,
        schema: str | None = None,
        format: str | None = None,  # noqa: A002 - the argument's name
        code: str | Path | None = None,
        transform: str | None = None,
        merge_key: str | None = None,
        order_by: str | None = None,
        delete_when: str | None = None,
        application: str | None = None,
        leases: Leases = Leases.NONE,
        start: StartPosition | None = None,
        options: Mapping[str, str] | None = None,
        spark: Mapping[str, str] | None = None,
        schedule: scheduler.ScheduleExpression | str = "rate(1 hour)",
        maintenance: scheduler.ScheduleExpression | str | None = None,
        run_timeout: Duration | None = None,
        driver: WorkerSize | None = None,
        executor: WorkerSize | None = None,
        executors_max: int = 4,
        architecture: lambda_.Architecture = lambda_.Architecture.ARM_64,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        stream_key: kms.IKey | None = None,
        bucket_key: kms.IKey | None = None,
        lease_table_key: kms.IKey | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_key: kms.IKey | None = None,
        alarm_topic: sns.ITopic | None = None,
        alarm_thresholds: PipelineThresholds | None = None,
        monitoring: Level = None,
        dependencies: str | Path | None = None,
        python: str = PYTHON,
    ) -> None:
        super().__init__(scope, construct_id)
        check_release(release_label, image_uri)
        self.fleet = Fleet(driver or WorkerSize(), executor or WorkerSize(), executors_max)
        self.fleet.check()
        self.arguments = PipelineArguments(
            name=name,
            stream=stream,
            streams=streams,
            bucket=bucket,
            output_prefix=output_prefix,
            checkpoint_prefix=checkpoint_prefix or f"{output_prefix}/_checkpoint",
            sink=sink,
            namespace=namespace,
            schema=schema,
            transform=transform,
            application=application,
            leases=leases,
            start=start,
            options=options or {},
            slots=self.fleet.slots,
            timeout_minutes=int((run_timeout or Duration.hours(6)).to_minutes()),
            merge_key=merge_key,
            order_by=order_by,
            delete_when=delete_when,
            format=format,
        )
        self.arguments.check()
        maintenance = maintenance_schedule(maintenance, sink, spark or {})
        if "region" not in (options or {}):
            check_stream(self, stream)
        assets = add_assets(
            self,
            code=Path(code) if code else None,
            transform=transform,
            schema=schema,
            sink=sink,
            dependencies=Path(dependencies) if dependencies else built(EMR, architecture.name),
        )
        self.log = add_log_group(self, "Log", keep_logs(self, log_retention, log_key))
        network = worker_network(self, vpc, vpc_subnets, security_groups)
        self.application = self._application(release_label, image_uri, architecture, network)
        streams_key = stream_key or (stream.encryption_key if stream else None)
        keys = (streams_key, bucket_key or bucket.encryption_key, lease_table_key)
        self.job_role = self._job_role(assets, *keys)
        self.dead_letters = add_queue(self, "DeadLetters", "This is the dead-letter queue itself")
        self.runs = add_queue(self, "Runs", "What became of the runs, for people to read: nothing consumes it")
        role = add_schedule_role(self, self.application.attr_arn, self.job_role, self.dead_letters)
        properties = spark_properties(self.fleet, assets.archives, python, Stack.of(self).region, spark or {})
        started = partial(self._start, assets, properties)
        run = started(name, self.arguments.texts(assets.schema))
        self.schedule = add_schedule(self, "Schedule", schedule, run, role, self.dead_letters)
        if maintenance is not None:
            upkeep = started(f"{name}-maintain", self.arguments.maintain_texts)
            self.maintenance = add_schedule(self, "Maintenance", maintenance, upkeep, role, self.dead_letters)
        failed, succeeded = self._ended("FAILED"), self._ended("SUCCESS")
        level = level_of(self, monitoring, hints=False)
        check_unheard(level, alarm_topic=alarm_topic, alarm_thresholds=alarm_thresholds)
        self.alarms: Mapping[str, cloudwatch.Alarm] = {}
        if level is not MonitoringLevel.NONE:
            watched = WatchedRuns(
                PipelineSubject(
                    name,
                    self.arguments.streams_named,
                    self.application.attr_application_id,
                    self.arguments.application if self.arguments.leases is not Leases.NONE else None,
                ),
                self.log,
                lag_of(self, stream, self.arguments.choice),
                failed,
                succeeded,
                self.dead_letters,
            )
            self.alarms = add_pipeline_alarms(
                Construct(self, "Alarms"), watched, alarm_thresholds or PipelineThresholds(), alarm_topic
            )
        Tags.of(self).add("sublet:pipeline", name)

    def _application(
        self,
        release: str,
        image_uri: str | None,
        architecture: lambda_.Architecture,
        network: emr.CfnApplication.NetworkConfigurationProperty,
    ) -> emr.CfnApplication:
        of = emr.CfnApplication
        cores, memory, disk = self.fleet.capacity
        log = of.CloudWatchLoggingConfigurationProperty(enabled=True, log_group_name=self.log.log_group_name)
        application = of(
            self,
            "Application",
            name=self.arguments.name,
            type="SPARK",
            release_label=release,
            architecture=architecture.name.upper(),
            image_configuration=of.ImageConfigurationInputProperty(image_uri=image_uri) if image_uri else None,
            maximum_capacity=of.MaximumAllowedResourcesProperty(cpu=cores, memory=memory, disk=disk),
            auto_start_configuration=of.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=of.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=int(IDLE_TIMEOUT.to_minutes())
            ),
            monitoring_configuration=of.MonitoringConfigurationProperty(cloud_watch_logging_configuration=log),
            network_configuration=network,
        )
        # An override: the oldest supported CDK does not know the property.
        queue = {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": QUEUE_TIMEOUT.to_minutes()}
        application.add_property_override("SchedulerConfiguration", queue)
        return application

    def _job_role(
        self,
        assets: PipelineAssets,
        stream_key: kms.IKey | None,
        bucket_key: kms.IKey | None,
        table_key: kms.IKey | None,
    ) -> iam.Role:
        arguments, bucket = self.arguments, self.arguments.bucket
        prefixes = [bucket.arn_for_objects(f"{prefix}/*") for prefix in arguments.prefixes]
        on_streams = of_a_pipeline(self, arguments.stream, arguments.choice)
        duties: dict[str, iam.PolicyStatement | None] = {
            **on_streams,
            "stream-key": roles.allow(["kms:Decrypt"], stream_key.key_arn) if stream_key else None,
            "leases": self._on_table(roles.PIPELINE_ON_LEASES, ""),
            "sightings": self._on_table(roles.PIPELINE_ON_SIGHTINGS, SIGHTINGS_SUFFIX),
            "leases-key": roles.allow(roles.ON_TABLES_KEY, table_key.key_arn) if table_key else None,
            "tables": roles.allow(roles.PIPELINE_ON_TABLES, *prefixes),
            # Not limited to the prefixes, or S3 would answer 403 instead of 404 for a missing object, which Spark
            # takes for a failure. This shows names, not contents.
            "names": roles.allow(["s3:ListBucket"], bucket.bucket_arn),
            "tables-key": roles.allow(["kms:Decrypt", "kms:GenerateDataKey"], bucket_key.key_arn)
            if bucket_key
            else None,
            "code": roles.allow(["s3:GetObject"], *assets.object_arns),
            "schemas": roles.allow(READS_SCHEMAS, "*") if is_glue_s(arguments.format) else None,
            "log": roles.allow(
                ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
                self.log.log_group_arn,
            ),
            "find-log": roles.allow(["logs:DescribeLogGroups"], "*"),
        }
        role = roles.role_of(self, "JobRole", "emr-serverless.amazonaws.com", duties, self.application.attr_arn)
        for prefix in prefixes:
            acknowledge_wildcard(role, prefix, "Spark names the files itself, below the pipeline's own prefix")
        acknowledge_wildcard(
            role, "*", "Looking for a log group, for streams, or for a schema by its id takes no resource"
        )
        acknowledge_patterns(role, on_streams)
        return role

    def _on_table(self, actions_by_leases: Mapping[str, list[str]], suffix: str) -> iam.PolicyStatement | None:
        actions = actions_by_leases[self.arguments.leases]
        if not actions:
            return None
        name = f"{self.arguments.application}{suffix}"
        table = Stack.of(self).format_arn(service="dynamodb", resource="table", resource_name=name)
        return roles.allow(actions, table)

    def _start(
        self, assets: PipelineAssets, properties: Mapping[str, str], name: str, arguments: Sequence[str]
    ) -> Mapping[str, Any]:
        return start_job_run(
            self.application.attr_application_id,
            self.job_role.role_arn,
            name,
            assets.entry_point,
            arguments,
            properties,
            self.arguments.timeout_minutes,
        )

    def _ended(self, state: str) -> events.Rule:
        """A rule for runs that end in this state; it sends their events to the queue of runs."""
        return events.Rule(
            self,
            f"Runs{state.capitalize()}",
            description=f"sublet: runs of the pipeline {self.arguments.name} that ended as {state}",
            event_pattern=events.EventPattern(
                source=["aws.emr-serverless"],
                detail_type=["EMR Serverless Job Run State Change"],
                detail={"applicationId": [self.application.attr_application_id], "state": [state]},
            ),
            targets=[targets.SqsQueue(self.runs)],
        )
