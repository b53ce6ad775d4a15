"""`KinesisConsumer`: a whole consumer as one construct, for your own stack.

    KinesisConsumer(
        self, "Orders",
        application="orders-audit", stream=stream, handler_code="handlers/orders", handler="orders:handle",
        start_position=StartPosition(StartKind.LATEST), window=timedelta(minutes=5), worker_memory=1024,
    )

Every setting of `sublet.settings.Settings`, except those only for a process, is a property too, with the default and
limits defined there; a wrong value is refused at synth, by name. The handler's own permissions go to
`consumer.worker`, as in `table.grant_write_data(consumer.worker)`. Metrics: `consumer.metric_lag()` and others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Unpack, cast

from aws_cdk import Annotations, ArnFormat, Duration, RemovalPolicy, Size, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet.metric_names import NAMESPACE
from sublet.settings.keywords import WorkerKeywords
from sublet.settings.value import TAG
from sublet_cdk import roles
from sublet_cdk.access import Access
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.alarms import Deployment, has_math
from sublet_cdk.bytecode import lacks
from sublet_cdk.consumer_settings import (
    environment_of,
    settings_of,
    tell_invoke_identity,
)
from sublet_cdk.dashboard_names import Runtime
from sublet_cdk.deployment_check import add_deployment_check
from sublet_cdk.failure_destination import FailureDestination, destination_of
from sublet_cdk.fan_out import consumer_of, register_before
from sublet_cdk.functions import (
    RUNTIME,
    FunctionShape,
    FunctionSize,
    Own,
    add_function,
    add_layers,
    check_runtime,
    compiled_asset,
    platform_of,
    python_of,
)
from sublet_cdk.handler_asset import stage_handler, warn_of_unread_requirements
from sublet_cdk.library import stage_folder, stage_library
from sublet_cdk.log_groups import keep_logs
from sublet_cdk.metrics_export import collector_variables, goes_to_cloudwatch
from sublet_cdk.monitoring import ConsumerMonitoring
from sublet_cdk.monitoring_level import Level, level_of, with_metrics
from sublet_cdk.networks import check_worker_network, services_of
from sublet_cdk.outputs import add_outputs
from sublet_cdk.places import check_stream
from sublet_cdk.property_help import with_property_help
from sublet_cdk.property_types import typed_properties
from sublet_cdk.queues import add_queue
from sublet_cdk.shipped import shipped
from sublet_cdk.state_machine import Functions
from sublet_cdk.state_machine_resource import EXECUTIONS_LOG, NAMES, add_state_machine, check_type, with_window
from sublet_cdk.tables import TableKeeping, tables_of
from sublet_cdk.ticks import add_lease_manager, add_rule
from sublet_cdk.worker_properties import check_memory, network, own_layers, own_variables

LEASE_WORKER_ENTRY_POINT = shipped("functions/lease_worker/app.py")


@with_property_help(ConsumerMonitoring)
class KinesisConsumer(Construct):
    """One application (consumer group) on one stream.

    application             names the lease table (KCL's convention) and prefixes all other names
    stream                  new, or imported by its ARN; left out with `streams`, which names several. Their roles may
                            then read streams by name, pattern or tag, also those that do not exist yet
    handler_code, handler, handler_dot_files
                            a folder, and the `module:function` in it. Its requirements.txt is installed from wheels
                            for the function's platform, without Docker. Files with a leading dot in their names are
                            left out, except those in handler_dot_files
    lease_table             an existing table of KCL named `application`, to continue from its checkpoints. By default
                            one is created
    sightings_table         an existing `<application>-sightings`, of a process, of a KinesisConsumerService, or of an
                            earlier stack. By default one is created
    lease_table_removal     what becomes of the created tables. By default they outlive the stack, with checkpoints,
                            snapshots and pauses, except after a failed first deployment, which leaves none behind. To
                            use them again: `lease_table` and `sightings_table`
    lease_table_deletion_protection
                            the created table cannot be deleted until this is false again
    lease_table_key         your own KMS key for the created tables, or of the existing `lease_table` if that does not
                            know its own; DynamoDB's own by default
    schedule                when ticks start: every minute by default. The alarms' periods follow it
    state_machine_type      EXPRESS costs a tenth of STANDARD or less. It is for catch_up mode with
                            windows of at most four minutes (`window`, 4m by default then), and has no list of
                            executions: the worker's log tells of them
    worker_memory           the memory of one lease worker, in MiB
    worker_timeout          the timeout of one lease worker; Lambda's 15 minutes by default
    worker_reserved_concurrency, manager_reserved_concurrency
                            how many may run at once. None by default, on purpose: a reservation is taken from the
                            account's other functions, and new accounts have too little for one. The worker's limits
                            how much the consumer takes; it needs at least shards / leases_per_worker. For the
                            manager, 1 is correct but slower: a prompt during a tick is throttled, and Lambda
                            delivers it some seconds later
    worker_environment      more variables, for the handler
    worker_role             an existing role, which gets what the worker needs; by default one is created
    on_failure              a queue, topic or bucket, or the ARN of one (a bucket's with or without /prefix), for
                            records that are set aside. The worker may only write there
    on_failure_key          the destination's KMS key, if it is your own and the construct (an ARN, say) does not know
                            it
    fan_out                 True registers a consumer of the stream under the application's name, which CloudFormation
                            deregisters with the stack, and reads by SubscribeToShard. Or the ARN of a registered
                            consumer, such as the one of a KCL fleet of the same application. With `streams`, True
                            registers one on each stream, and each must be named; or give the name of consumers that are
                            registered already. Synth prints the cost
    worker_layers           up to three more layers, for the handler
    ephemeral_storage       the size of the worker's /tmp; Lambda's 512 MiB by default
    vpc, vpc_subnets, security_groups
                            the worker's network, if the handler needs resources in it. It must reach Kinesis and
                            DynamoDB (endpoints or a NAT): subnets that cannot are refused at synth. The manager runs
                            none of your code, and stays outside
    runtime                 the functions' Python: 3.11 to 3.14
    architecture            the functions' processors: ARM_64, which costs a fifth less, or X86_64
    tracing                 whether X-Ray traces the functions
    log_retention           how long CloudWatch keeps each log group's lines
    log_key                 a KMS key for all log groups, which gets the statement that CloudWatch Logs needs (an
                            imported key must have it already); CloudWatch's own by default
    stream_key              the stream's KMS key, if it is neither the stream construct's own nor AWS's
    alarm_topic, alarm_thresholds, dashboard_name
                            as for ConsumerMonitoring
    monitoring              as for ConsumerMonitoring. "lean" implies metrics_level=lean, and metrics_by_shard=none
                            unless you state another
    outputs                 add the names of the created resources as stack outputs
    deployment_check        the deployment fails if the deployed worker cannot import its handler. A first deployment
                            also gets its first tick: it takes a minute or two longer, until CloudWatch has that
                            tick's metrics, so that no alarm fires because of it
    dependencies_layer      your own layer with sublet's dependencies, or a folder for one; by default it is built from
                            the locked wheels on first use, without Docker
    """

    @typed_properties
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        application: str,
        stream: kinesis.IStream | None = None,
        handler_code: str | Path,
        handler: str,
        lease_table: dynamodb.ITable | None = None,
        sightings_table: dynamodb.ITable | None = None,
        lease_table_removal: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lease_table_deletion_protection: bool = False,
        lease_table_key: kms.IKey | None = None,
        schedule: events.Schedule | None = None,
        state_machine_type: sfn.StateMachineType = sfn.StateMachineType.STANDARD,
        worker_memory: int = 512,
        worker_timeout: Duration | None = None,
        worker_reserved_concurrency: int | None = None,
        manager_reserved_concurrency: int | None = None,
        worker_environment: Mapping[str, str] | None = None,
        worker_role: iam.IRole | None = None,
        fan_out: bool | str = False,
        on_failure: FailureDestination | None = None,
        on_failure_key: kms.IKey | None = None,
        worker_layers: Sequence[lambda_.ILayerVersion] = (),
        ephemeral_storage: Size | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        handler_dot_files: Collection[str] = (),
        runtime: lambda_.Runtime = RUNTIME,
        architecture: lambda_.Architecture = lambda_.Architecture.ARM_64,
        tracing: lambda_.Tracing = lambda_.Tracing.DISABLED,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_key: kms.IKey | None = None,
        stream_key: kms.IKey | None = None,
        alarm_topic: sns.ITopic | None = None,
        alarm_thresholds: AlarmThresholds | None = None,
        monitoring: Level = None,
        dashboard_name: str | None = None,
        deployment_check: bool = True,
        outputs: bool = False,
        dependencies_layer: lambda_.ILayerVersion | str | Path | None = None,
        **settings: Unpack[WorkerKeywords],
    ) -> None:
        super().__init__(scope, construct_id)
        timeout = worker_timeout or Duration.minutes(15)
        self.stream, self.stream_key = (
            stream,
            stream_key or (None if stream is None else stream.encryption_key),
        )
        check_stream(self, stream)
        self.destination = destination_of(on_failure, on_failure_key)
        level = level_of(self, monitoring)
        stated = with_window(state_machine_type, with_metrics(level, settings))
        self.settings = settings_of(application, stream, handler, stated, timeout, self.destination, fan_out)
        self.fan_out_consumer = consumer_of(self, self.settings, stream, fan_out)
        self._state_machine_type = state_machine_type
        check_type(state_machine_type, self.settings)
        own = own_variables(worker_environment or {})
        to_cloudwatch = goes_to_cloudwatch(self.settings, own)
        check_memory(self.settings, worker_memory)
        needed = services_of(self.settings, to_cloudwatch=to_cloudwatch)
        check_worker_network(self, vpc, vpc_subnets, self.destination, needed)
        check_runtime(runtime)
        if without_bytecode := lacks(python_of(runtime)):
            Annotations.of(self).add_info(without_bytecode)
        library = stage_library(self, python_of(runtime))
        self.shape = FunctionShape(
            application,
            architecture,
            keep_logs(self, log_retention, log_key),
            add_layers(self, architecture, runtime, library, dependencies_layer),
            environment_of(self.settings, stream, self.destination, self.fan_out_consumer)
            | {"POWERTOOLS_METRICS_NAMESPACE": NAMESPACE}
            | collector_variables(self.settings, own),
            runtime,
            tracing,
        )
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
        self.dead_letters = add_queue(self, "DeadLetters", "This is the dead-letter queue itself")
        code = self._worker_code(Path(handler_code), handler_dot_files)
        self.worker = add_function(
            self,
            "LeaseWorker",
            self.shape,
            FunctionSize(worker_memory, timeout, worker_reserved_concurrency, ephemeral_storage),
            compiled_asset(code, python_of(runtime)),
            self._access.worker(),
            Own(
                own,
                own_layers(worker_layers),
                worker_role,
                network(vpc, security_groups, vpc_subnets),
            ),
        )
        tell_invoke_identity(self.worker, self.settings)
        register_before(self.worker, self)
        if self.destination is not None:
            self.destination.acknowledge(self, self.settings.application)
        self.manager, self._failed_ticks = add_lease_manager(
            self,
            self.shape,
            self._access.manager(),
            self.state_machine_arn,
            self.dead_letters,
            manager_reserved_concurrency,
        )
        self.state_machine = add_state_machine(
            self,
            self.state_machine_name,
            Functions(
                self.worker.function_arn,
                self.manager.function_arn,
                int(timeout.to_seconds()),
                Stack.of(self).partition,
            ),
            self.shape.log_keeping,
            state_machine_type,
        )
        schedule = schedule or events.Schedule.rate(Duration.minutes(1))
        self.rule = add_rule(self, application, self.manager, schedule, self.dead_letters)
        self.rule.node.add_dependency(self.state_machine)
        self.monitoring = ConsumerMonitoring(
            self,
            "Default",  # an id that adds nothing to the names in it
            application=application,
            alarm_topic=alarm_topic,
            alarm_thresholds=alarm_thresholds,
            deployment=Deployment(
                self.manager,
                self.worker,
                self.state_machine,
                cast("logs.ILogGroup", self.node.find_child(EXECUTIONS_LOG)),
                self.dead_letters,
                schedule,
            ),
            on_failure=on_failure,
            log_group=self.manager.log_group,
            stream=None if stream is None else stream.stream_name,
            streams=self.settings.streams,
            monitoring=level,
            metrics_export=self.settings.metrics_export,
            collector=not to_cloudwatch,
            dashboard_name=dashboard_name,
            runtime=Runtime.LAMBDA,
        )
        if deployment_check:
            self._check_deployment([*self.shape.layers, *worker_layers])
        self.alarms = self.monitoring.alarms
        self.metric, self.metric_lag = self.monitoring.metric, self.monitoring.metric_lag
        self.metric_records, self.metric_bytes = self.monitoring.metric_records, self.monitoring.metric_bytes
        self.metric_handler_failures = self.monitoring.metric_handler_failures
        self.metric_unclaimed_leases = self.monitoring.metric_unclaimed_leases
        self.metric_worker_leases = self.monitoring.metric_worker_leases
        if outputs:
            add_outputs(Construct(self, "Outputs"), self.names())
        Tags.of(self).add(TAG, application)

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """Raises SettingsError if there is none."""
        return self.monitoring.dashboard

    @property
    def state_machine_name(self) -> str:
        """Fixed, because the manager's environment needs the state machine's ARN, and the state machine needs the
        manager's. With a fixed name the first is known before the state machine exists."""
        return NAMES[self._state_machine_type].format(application=self.settings.application)

    @property
    def state_machine_arn(self) -> str:
        return Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=self.state_machine_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def names(self) -> dict[str, str]:
        """The created resources' names, as in the outputs."""
        return {
            **({} if self.stream is None else {"StreamName": self.stream.stream_name}),
            "LeaseTable": self.lease_table.table_name,
            "SightingsTable": self.sightings_table.table_name,
            "LeaseManager": self.manager.function_name,
            "LeaseWorker": self.worker.function_name,
            "StateMachineArn": self.state_machine.state_machine_arn,
            "DeadLettersUrl": self.dead_letters.queue_url,
            **self.monitoring.names(),
        }

    def grant_read_leases(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grants reading the leases: `sublet leases`."""
        return self._access.grant_read_leases(grantee)

    def grant_prompt(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grants invoking the lease manager, for an immediate tick."""
        return roles.grant(grantee, ["lambda:InvokeFunction"], self.manager.function_arn)

    def grant_worker(self, grantee: iam.IGrantable) -> None:
        """Grants a role that was imported as immutable what a lease worker may do, except for its log and its
        network.
        """
        self._access.grant(grantee, self._access.worker())

    def grant_process(self, grantee: iam.IGrantable) -> None:
        """Grants what `sublet run` and `sublet.Consumer` need to run beside this deployment on the same leases."""
        self._access.grant(grantee, self._access.process())

    def grant_redrive(self, grantee: iam.IGrantable) -> None:
        """Grants what `sublet redrive` needs to remove records from the failure destination once they are handled."""
        self._access.grant_redrive(grantee)

    def _worker_code(self, handler_code: Path, dot_files: Collection[str]) -> Path:
        target = stage_folder(self) / f"handler-{self.node.addr}"
        platform = platform_of(self.shape.runtime, self.shape.architecture)
        handler, contract = self.settings.handler, self.settings.handler_contract
        warn_of_unread_requirements(self, handler_code)
        return stage_handler(handler_code, handler, LEASE_WORKER_ENTRY_POINT, target, platform, dot_files, contract)

    def _check_deployment(self, layers: Sequence[lambda_.ILayerVersion]) -> None:
        """Lets no tick begin before the check has imported the handler, and no alarm watch for ticks before the first
        one.
        """
        check = add_deployment_check(
            self,
            self.worker,
            layers,
            self.manager,
            self.monitoring.first_figures(),
            self.shape,
            awaits=has_math(self) and bool(self.monitoring.alarms),
        )
        check.node.add_dependency(self.state_machine, self._failed_ticks)
        self.rule.node.add_dependency(check)
        self.monitoring.begin_after(check)
