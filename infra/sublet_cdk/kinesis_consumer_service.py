"""`KinesisConsumerService`: a consumer as long-lived containers on ECS Fargate, for your own stack.

    KinesisConsumerService(
        self, "Orders",
        application="orders-audit", stream=stream, handler_code="handlers/orders", handler="orders:handle", vpc=vpc,
    )

It shares the leases of a KinesisConsumer, a KCL fleet, or any other process of the same application. Every setting of
`sublet.settings.Settings`, except those only for Lambda, is a property too. The handler's own permissions go to
`consumer.task_role`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack, cast

from aws_cdk import Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct
from sublet.errors import SettingsError
from sublet.metric_names import NAMESPACE
from sublet.settings.keywords import ServiceKeywords
from sublet.settings.value import TAG
from sublet_cdk import roles
from sublet_cdk.access import Access
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.consumer_settings import environment_of
from sublet_cdk.dashboard_names import Runtime
from sublet_cdk.failure_destination import FailureDestination, destination_of
from sublet_cdk.fan_out import consumer_of, register_before
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.log_groups import add_log_group, keep_logs
from sublet_cdk.metrics_export import METRICS, goes_to_cloudwatch
from sublet_cdk.monitoring import ConsumerMonitoring
from sublet_cdk.monitoring_level import Level, level_of, with_metrics
from sublet_cdk.nag import acknowledge
from sublet_cdk.networks import check_task_network, services_of
from sublet_cdk.outputs import add_outputs
from sublet_cdk.places import check_stream
from sublet_cdk.property_help import with_property_help
from sublet_cdk.property_types import typed_properties
from sublet_cdk.service_code import (
    CODE,
    PYTHONPATH,
    ServiceCode,
    add_fetching,
    code_of_folder,
    code_of_image,
)
from sublet_cdk.service_settings import (
    HEALTH,
    STOP_TIMEOUT,
    service_settings_of,
)
from sublet_cdk.tables import TableKeeping, tables_of
from sublet_cdk.worker_properties import check_memory, own_variables

ARCHITECTURES = {"arm64": ecs.CpuArchitecture.ARM64, "x86_64": ecs.CpuArchitecture.X86_64}

HEALTH_CHECK = f"import urllib.request as r; r.urlopen('http://{HEALTH}/health/ready', timeout=4)"
"""The health check's program. It raises on a 503, and so exits with 1. An image need not contain curl."""

CPU_TARGET_PERCENT = 60
SCALES_IN_AFTER, SCALES_OUT_AFTER = Duration.minutes(10), Duration.minutes(2)


@with_property_help(KinesisConsumer)
class KinesisConsumerService(Construct):
    """One application (consumer group) on one stream, in containers.

    application, stream, stream_key, lease_table, sightings_table, lease_table_removal, lease_table_deletion_protection,
    lease_table_key, on_failure, on_failure_key, log_retention, log_key, alarm_topic, alarm_thresholds, monitoring,
    dashboard_name, outputs
                            as for KinesisConsumer
    handler, handler_code   `module:function`, and its folder, which is deployed without a Dockerfile: a public
                            Python image gets it, the library and their packages from an S3 asset
    image, command          instead of handler_code: any image that has sublet and the handler. The command is
                            `sublet run` by default
    vpc, cluster            where it runs: your own cluster, or one that is created in the network. It must reach
                            Kinesis, DynamoDB, CloudWatch Logs and the images (endpoints or a NAT): subnets that
                            cannot are refused at synth
    vpc_subnets, security_groups, assign_public_ip
                            where the tasks are in the network. By default in its private subnets, in a security group
                            without inbound rules. A task in a public subnet without a NAT needs a public address
    cpu, memory             the size of one task: in Fargate's units, and in MiB
    architecture            the tasks' processors: arm64 or x86_64
    min_tasks, max_tasks    how many tasks run. Those beyond the number of shards have nothing to do
    scale_out_lag           tasks are added while the most lagging shard is further behind than this, or the average CPU
                            is above 60%; and removed when neither is true
    spot                    all tasks but the first on Fargate Spot: an interruption is a SIGTERM, with two minutes'
                            notice. Your own cluster must have both capacity providers of Fargate
    fan_out                 as for KinesisConsumer
    environment             more variables, for the handler
    task_role               an existing role, which gets what a task needs; by default one is created
    dependencies            a folder with sublet's dependencies; by default it is built once from the locked wheels
    """

    @typed_properties
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        application: str,
        stream: kinesis.IStream | None = None,
        handler: str,
        handler_code: str | Path | None = None,
        image: ecs.ContainerImage | None = None,
        command: Sequence[str] | None = None,
        vpc: ec2.IVpc | None = None,
        cluster: ecs.ICluster | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        assign_public_ip: bool = False,
        cpu: int = 256,
        memory: int = 1024,
        architecture: str = "arm64",
        min_tasks: int = 1,
        max_tasks: int = 4,
        scale_out_lag: Duration | None = None,
        spot: bool = False,
        environment: Mapping[str, str] | None = None,
        task_role: iam.IRole | None = None,
        lease_table: dynamodb.ITable | None = None,
        lease_table_removal: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lease_table_deletion_protection: bool = False,
        lease_table_key: kms.IKey | None = None,
        sightings_table: dynamodb.ITable | None = None,
        fan_out: bool | str = False,
        on_failure: FailureDestination | None = None,
        on_failure_key: kms.IKey | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_key: kms.IKey | None = None,
        stream_key: kms.IKey | None = None,
        alarm_topic: sns.ITopic | None = None,
        alarm_thresholds: AlarmThresholds | None = None,
        monitoring: Level = None,
        dashboard_name: str | None = None,
        outputs: bool = False,
        dependencies: str | Path | None = None,
        **settings: Unpack[ServiceKeywords],
    ) -> None:
        super().__init__(scope, construct_id)
        self.stream, self.stream_key = (
            stream,
            stream_key or (None if stream is None else stream.encryption_key),
        )
        check_stream(self, stream)
        self.destination = destination_of(on_failure, on_failure_key)
        level = level_of(self, monitoring)
        stated = with_metrics(level, settings)
        self.settings = service_settings_of(application, stream, handler, stated, self.destination, fan_out)
        self.fan_out_consumer = consumer_of(self, self.settings, stream, fan_out)
        own = own_variables(environment or {}, "environment")
        to_cloudwatch = goes_to_cloudwatch(self.settings, own)
        check_memory(self.settings, memory, "memory")
        _check_tasks(architecture, min_tasks, max_tasks)
        code = self._code(handler_code, image, command, architecture, dependencies)
        keeping = TableKeeping(lease_table_removal, lease_table_deletion_protection, lease_table_key)
        tables = tables_of(self, self.settings, stream, keeping, lease_table, sightings_table)
        self.lease_table, self.sightings_table = tables.leases, tables.sightings
        self._access = Access(
            self,
            self.settings,
            stream,
            self.stream_key,
            tables,
            self.destination,
            lease_table is not None,
            self.fan_out_consumer,
            to_cloudwatch=to_cloudwatch,
        )
        self.task_role = self._role(task_role, code)
        self.log_group = add_log_group(self, "ServiceLog", keep_logs(self, log_retention, log_key))
        self.task = self._task(cpu, memory, architecture, code, own)
        self.cluster = cluster or self._cluster(vpc)
        check_task_network(
            self,
            self.cluster.vpc,
            vpc_subnets,
            self.destination,
            has_public_address=assign_public_ip,
            is_own_image=image is not None,
            more=services_of(self.settings, to_cloudwatch=to_cloudwatch),
        )
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=self.cluster,
            task_definition=self.task,
            vpc_subnets=vpc_subnets,
            security_groups=list(security_groups) if security_groups else None,
            assign_public_ip=assign_public_ip,
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            capacity_provider_strategies=_strategies(spot),
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )
        self.monitoring = ConsumerMonitoring(
            self,
            "Default",
            application=application,
            alarm_topic=alarm_topic,
            alarm_thresholds=alarm_thresholds,
            on_failure=on_failure,
            log_group=self.log_group,
            stream=None if stream is None else stream.stream_name,
            streams=self.settings.streams,
            monitoring=level,
            metrics_export=self.settings.metrics_export,
            collector=not to_cloudwatch,
            dashboard_name=dashboard_name,
            runtime=Runtime.FARGATE,
        )
        register_before(self.service, self)
        self.monitoring.begin_after(self.service)
        self.alarms = self.monitoring.alarms
        self.metric, self.metric_lag = self.monitoring.metric, self.monitoring.metric_lag
        self.scaling = self._scaling(min_tasks, max_tasks, scale_out_lag or Duration.minutes(1))
        if outputs:
            add_outputs(Construct(self, "Outputs"), self.names())
        Tags.of(self).add(TAG, application)

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """Raises SettingsError if there is none."""
        return self.monitoring.dashboard

    def names(self) -> dict[str, str]:
        """The created resources' names, as in the outputs."""
        return {
            **({} if self.stream is None else {"StreamName": self.stream.stream_name}),
            "LeaseTable": self.lease_table.table_name,
            "SightingsTable": self.sightings_table.table_name,
            "ClusterName": self.cluster.cluster_name,
            "ServiceName": self.service.service_name,
            **self.monitoring.names(),
        }

    def grant_read_leases(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grants reading the leases: `sublet leases`."""
        return self._access.grant_read_leases(grantee)

    def grant_redrive(self, grantee: iam.IGrantable) -> None:
        """Grants what `sublet redrive` needs to remove records from the failure destination once they are handled."""
        self._access.grant_redrive(grantee)

    def _code(
        self,
        handler_code: str | Path | None,
        image: ecs.ContainerImage | None,
        command: Sequence[str] | None,
        architecture: str,
        dependencies: str | Path | None,
    ) -> ServiceCode:
        if image is not None and handler_code is None:
            return code_of_image(image, tuple(command) if command else None)
        if handler_code is None or image is not None:
            raise SettingsError("handler_code", handler_code, "a directory, or else an image; not both")
        if command is not None:
            raise SettingsError("command", command, "only with your own image")
        return code_of_folder(
            self,
            Path(handler_code),
            self.settings.handler,
            self.settings.handler_contract,
            architecture,
            None if dependencies is None else Path(dependencies),
        )

    def _role(self, given: iam.IRole | None, code: ServiceCode) -> iam.IRole:
        """Returns the tasks' role, which may do what a process does, fetch its own code, and nothing else."""
        stack, asset = Stack.of(self), code.asset
        duties = {
            **self._access.process(),
            "code": roles.allow(["s3:GetObject"], asset.bucket.arn_for_objects(asset.s3_object_key)) if asset else None,
        }
        if self.destination is not None:
            self.destination.acknowledge(self, self.settings.application)
        permitted: IConstruct
        if given is not None:
            role, permitted = given, roles.add_duties(self, "TaskDuties", given, duties)
        else:
            tasks = stack.format_arn(service="ecs", resource="*")
            role = permitted = roles.role_of(self, "TaskRole", "ecs-tasks.amazonaws.com", duties, on_behalf_of=tasks)
        if METRICS in duties:
            acknowledge(permitted, "IAM5[Resource::*]", "Metrics have no ARNs")
        return role

    def _task(
        self, cpu: int, memory: int, architecture: str, code: ServiceCode, own: Mapping[str, str]
    ) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=cpu,
            memory_limit_mib=memory,
            task_role=self.task_role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ARCHITECTURES[architecture],
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
        )
        logging = ecs.LogDrivers.aws_logs(stream_prefix="sublet", log_group=self.log_group)
        stated = environment_of(self.settings, self.stream, self.destination, self.fan_out_consumer)
        powertools = {"POWERTOOLS_METRICS_NAMESPACE": NAMESPACE}
        consumer = task.add_container(
            "consumer",
            image=code.image,
            command=list(code.command),
            environment={**own, **stated, **powertools, **({"PYTHONPATH": PYTHONPATH} if code.asset else {})},
            logging=logging,
            stop_timeout=Duration.seconds(STOP_TIMEOUT.total_seconds()),
            readonly_root_filesystem=code.asset is not None,
            health_check=ecs.HealthCheck(
                command=["CMD", "python", "-c", HEALTH_CHECK],
                interval=Duration.seconds(10),
                timeout=Duration.seconds(5),
                retries=3,
                start_period=Duration.minutes(2),
            ),
        )
        if code.asset is not None:
            for volume, path in (("code", CODE), ("tmp", "/tmp")):  # noqa: S108 - the container's own
                task.add_volume(name=volume)
                consumer.add_mount_points(ecs.MountPoint(container_path=path, source_volume=volume, read_only=False))
            consumer.add_container_dependencies(
                ecs.ContainerDependency(
                    container=add_fetching(task, code.asset, logging),
                    condition=ecs.ContainerDependencyCondition.SUCCESS,
                )
            )
        acknowledge(task, "ECS2", "These are settings and names; a handler's secrets belong elsewhere")
        return task

    def _cluster(self, vpc: ec2.IVpc | None) -> ecs.Cluster:
        if vpc is None:
            raise SettingsError("vpc", None, "the network to create a cluster in, or your own cluster")
        cluster = ecs.Cluster(self, "Cluster", vpc=vpc, enable_fargate_capacity_providers=True)
        # The L2 has two properties for it: newer CDKs deprecate one, older ones lack the other.
        insights = ecs.CfnCluster.ClusterSettingsProperty(name="containerInsights", value="enabled")
        cast("ecs.CfnCluster", cluster.node.default_child).cluster_settings = [insights]
        return cluster

    def _scaling(self, min_tasks: int, max_tasks: int, lag: Duration) -> ecs.ScalableTaskCount:
        """Scales by lag and by CPU. Both policies track a target, so tasks are removed only if both agree: a handler
        that waits may lag with little CPU."""
        scaling = self.service.auto_scale_task_count(min_capacity=min_tasks, max_capacity=max_tasks)
        scaling.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=CPU_TARGET_PERCENT,
            scale_in_cooldown=SCALES_IN_AFTER,
            scale_out_cooldown=SCALES_OUT_AFTER,
        )
        scaling.scale_to_track_custom_metric(
            "Lag",
            metric=self.metric_lag(),
            target_value=lag.to_milliseconds(),
            scale_in_cooldown=SCALES_IN_AFTER,
            scale_out_cooldown=SCALES_OUT_AFTER,
        )
        return scaling


def _strategies(spot: bool) -> list[ecs.CapacityProviderStrategy] | None:
    """Returns the capacity providers for Spot, or None for Fargate, which every cluster has."""
    if not spot:
        return None
    return [
        ecs.CapacityProviderStrategy(capacity_provider="FARGATE", base=1, weight=0),
        ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=1),
    ]


def _check_tasks(architecture: str, min_tasks: int, max_tasks: int) -> None:
    if architecture not in ARCHITECTURES:
        raise SettingsError("architecture", architecture, f"one of {', '.join(ARCHITECTURES)}")
    if not 1 <= min_tasks <= max_tasks:
        raise SettingsError("min_tasks", min_tasks, f"1 to max_tasks ({max_tasks})")
