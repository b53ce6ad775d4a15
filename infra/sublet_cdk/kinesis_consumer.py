"""`KinesisConsumer`: a whole consumer as one construct, for a stack of your own.

    KinesisConsumer(
        self, "Orders",
        application="orders-audit", stream=stream, handler_code="handlers/orders", handler="orders:handle",
        start_position=StartPosition(StartKind.LATEST), window=timedelta(minutes=5), worker_memory=1024,
    )

Every setting of `sublet.settings.Settings` that is not only for a process is a property too, with the default
and the limits written there; a wrong one is refused at synth, by its name. The handler's own permissions:
`consumer.worker`, as in `table.grant_write_data(consumer.worker)`. Its metrics: `consumer.metric_lag()` and others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from aws_cdk import Annotations, ArnFormat, Duration, RemovalPolicy, Size, Stack, Tags
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct
from sublet.errors import SettingsError
from sublet.metric_names import NAMESPACE
from sublet_cdk import roles, tables
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.alarms import Deployment
from sublet_cdk.bytecode import lacks
from sublet_cdk.consumer_settings import (
    SettingProperties,
    environment_of,
    settings_of,
    tell_invoke_identity,
)
from sublet_cdk.deployment_check import add_deployment_check
from sublet_cdk.executions import add_state_machine
from sublet_cdk.failure_destination import FailureDestination, destination_of
from sublet_cdk.functions import (
    RUNTIME,
    FunctionShape,
    FunctionSize,
    Own,
    add_function,
    add_layers,
    check_runtime,
    compiled_asset,
    plain_asset,
    platform_of,
    python_of,
)
from sublet_cdk.handler_asset import stage_handler
from sublet_cdk.library import stage_folder, stage_library
from sublet_cdk.log_groups import keep_logs
from sublet_cdk.monitoring import ConsumerMonitoring
from sublet_cdk.outputs import add_outputs
from sublet_cdk.queues import add_queue
from sublet_cdk.shipped import shipped
from sublet_cdk.state_machine import Functions
from sublet_cdk.worker_properties import check_memory, network, own_layers, own_variables

LEASE_MANAGER_CODE = shipped("functions/lease_manager")
LEASE_WORKER_ENTRY_POINT = shipped("functions/lease_worker/app.py")

STATE_MACHINE_VARIABLE = "LEASE_WORKER_STATE_MACHINE_ARN"
"""Not SUBLET_: that prefix is for settings only, and Settings refuses a variable that is none."""

MANAGER_MEMORY = 512
"""MiB. Scanning 10,000 leases takes half a second of CPU."""

MANAGER_TIMEOUT = Duration.minutes(5)
"""A first tick creates a lease for every shard of the stream. It may overlap the next one: conditional writes
make that safe.
"""

UNDELIVERED_AFTER = Duration.hours(1)
"""A tick or prompt that could not be delivered for so long is pointless: later ticks have done its work."""


class KinesisConsumer(Construct):
    """One application (consumer group) on one stream.

    application             names the lease table (KCL's convention) and prefixes all else that has a name
    stream                  new, or imported by its ARN
    handler_code, handler   a directory, and the `module:function` in it. Its requirements.txt is installed from wheels
                            of the function's platform, without Docker. No file with a dot before its name is shipped,
                            but for those named in handler_dot_files
    lease_table             KCL's own, to go on from its checkpoints: a table named `application`. Otherwise
                            one is made
    lease_table_removal     its checkpoints outlive the stack by default, but for a first deployment that failed, which
                            leaves none behind. To use it again: `lease_table`
    lease_table_deletion_protection
                            nobody deletes the table that is made before this is taken back
    schedule                of the ticks, each minute by default. The alarms' periods follow it
    worker_memory           of one lease worker, in MiB
    worker_timeout          of one lease worker; Lambda's 15 minutes by default
    worker_reserved_concurrency, manager_reserved_concurrency
                            None by default, on purpose: a reservation is taken from the account's other
                            functions, and new accounts have too little for one. The worker's is a ceiling
                            on what the consumer takes; shards / leases_per_worker is its least. For the
                            manager 1 is correct but slower: a prompt during a tick is throttled, and
                            Lambda delivers it some seconds later
    worker_environment      more variables, for the handler
    worker_role             a role that there is already, which gets what the worker needs; by default one is made
    on_failure              a queue, topic or bucket, or the ARN of one (a bucket's with or without /prefix): where
                            records go that are set aside. The worker may put there, and no more
    worker_layers           up to three more layers, for the handler
    ephemeral_storage       of the worker's /tmp; Lambda's 512 MiB by default
    vpc, vpc_subnets, security_groups
                            of the worker, whose handler may need what is inside. It needs a way out to Kinesis and
                            DynamoDB (endpoints or a NAT). The manager runs none of your code, and stays outside
    runtime                 of the functions: Python 3.11 to 3.14
    tracing                 of the functions, by X-Ray
    log_key                 a KMS key for all log groups, which gets the statement that CloudWatch Logs needs (a key that was
                            imported must have it); CloudWatch's own by default
    stream_key              the stream's KMS key, if it is neither the stream construct's own nor AWS's
    alarm_topic             is told when an alarm fires and when it is over
    outputs                 the names of what was made, as the stack's outputs
    deployment_check        the deployment fails when the deployed worker cannot import its handler
    dependencies_layer      a layer of yours with what sublet depends on, or a folder for one; by default it is made of
                            the locked wheels when it is first needed, without Docker
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        application: str,
        stream: kinesis.IStream,
        handler_code: str | Path,
        handler: str,
        lease_table: dynamodb.ITable | None = None,
        lease_table_removal: RemovalPolicy = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lease_table_deletion_protection: bool = False,
        schedule: events.Schedule | None = None,
        worker_memory: int = 512,
        worker_timeout: Duration | None = None,
        worker_reserved_concurrency: int | None = None,
        manager_reserved_concurrency: int | None = None,
        worker_environment: Mapping[str, str] | None = None,
        worker_role: iam.IRole | None = None,
        on_failure: FailureDestination | None = None,
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
        deployment_check: bool = True,
        outputs: bool = False,
        dependencies_layer: lambda_.ILayerVersion | str | Path | None = None,
        **settings: Unpack[SettingProperties],
    ) -> None:
        super().__init__(scope, construct_id)
        timeout = worker_timeout or Duration.minutes(15)
        self.stream, self.stream_key = stream, stream_key or stream.encryption_key
        self.destination = destination_of(on_failure)
        self.settings = settings_of(application, stream, handler, settings, timeout, self.destination)
        check_memory(self.settings, worker_memory)
        check_runtime(runtime)
        if without_bytecode := lacks(python_of(runtime)):
            Annotations.of(self).add_info(without_bytecode)
        library = stage_library(self, python_of(runtime))
        self.shape = FunctionShape(
            application,
            architecture,
            keep_logs(self, log_retention, log_key),
            add_layers(self, architecture, runtime, library, dependencies_layer),
            environment_of(self.settings, stream, self.destination)
            | {"POWERTOOLS_METRICS_NAMESPACE": NAMESPACE},
            runtime,
            tracing,
        )
        self._may_join_kcl = lease_table is not None
        self.lease_table = tables.lease_table(
            self, self.settings, lease_table, lease_table_removal, lease_table_deletion_protection
        )
        self.sightings_table = tables.sightings_table(self, self.settings)
        self.dead_letters = add_queue(self, "DeadLetters", "This is the dead-letter queue itself")
        code = self._worker_code(Path(handler_code), handler_dot_files)
        self.worker = add_function(
            self,
            "LeaseWorker",
            self.shape,
            FunctionSize(worker_memory, timeout, worker_reserved_concurrency, ephemeral_storage),
            compiled_asset(code, python_of(runtime)),
            self._worker_duties(),
            Own(
                own_variables(worker_environment or {}),
                own_layers(worker_layers),
                worker_role,
                network(vpc, security_groups, vpc_subnets),
            ),
        )
        tell_invoke_identity(self.worker, self.settings)
        if self.destination is not None:
            self.destination.acknowledge(self, self.settings.application)
        self.manager = self._manager(manager_reserved_concurrency)
        self.state_machine = add_state_machine(
            self,
            self.state_machine_name,
            self.state_machine_arn,
            Functions(
                self.worker.function_arn,
                self.manager.function_arn,
                int(timeout.to_seconds()),
                Stack.of(self).partition,
            ),
            self.shape.log_keeping,
        )
        schedule = schedule or events.Schedule.rate(Duration.minutes(1))
        self.rule = self._rule(schedule)
        if deployment_check:
            check = add_deployment_check(self, self.worker, [code, library], self.settings, self.shape)
            self.rule.node.add_dependency(check)  # no tick before the handler is known to be there
        self.monitoring = ConsumerMonitoring(
            self,
            "Default",  # which adds nothing to the names of what is in it
            application=application,
            alarm_topic=alarm_topic,
            alarm_thresholds=alarm_thresholds,
            deployment=Deployment(self.manager, self.worker, self.state_machine, self.dead_letters, schedule),
        )
        self.alarms, self.dashboard = self.monitoring.alarms, self.monitoring.dashboard
        self.metric, self.metric_lag = self.monitoring.metric, self.monitoring.metric_lag
        self.metric_records, self.metric_bytes = self.monitoring.metric_records, self.monitoring.metric_bytes
        self.metric_handler_failures = self.monitoring.metric_handler_failures
        self.metric_unclaimed_leases = self.monitoring.metric_unclaimed_leases
        self.metric_worker_leases = self.monitoring.metric_worker_leases
        if outputs:
            add_outputs(Construct(self, "Outputs"), self.names())
        Tags.of(self).add("sublet:application", application)

    @property
    def state_machine_name(self) -> str:
        """A name of ours, since the manager's environment needs the state machine's ARN and the state machine
        needs the manager's: with a name, the first can be written down before the state machine exists, and
        the circle is open.
        """
        return f"{self.settings.application}-lease-workers"

    @property
    def state_machine_arn(self) -> str:
        return Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=self.state_machine_name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def names(self) -> dict[str, str]:
        """What was made, by the names that its outputs have."""
        return {
            "StreamName": self.stream.stream_name,
            "LeaseTable": self.lease_table.table_name,
            "SightingsTable": self.sightings_table.table_name,
            "LeaseManager": self.manager.function_name,
            "LeaseWorker": self.worker.function_name,
            "StateMachineArn": self.state_machine.state_machine_arn,
            "DeadLettersUrl": self.dead_letters.queue_url,
            "DashboardName": self.dashboard.dashboard_name,
        }

    def grant_read_leases(self, grantee: iam.IGrantable) -> iam.Grant:
        """To look at the leases: `sublet leases`."""
        return roles.grant(grantee, roles.READER_ON_LEASES, self.lease_table.table_arn)

    def grant_prompt(self, grantee: iam.IGrantable) -> iam.Grant:
        """To invoke the lease manager, for a tick at once."""
        return roles.grant(grantee, ["lambda:InvokeFunction"], self.manager.function_arn)

    def grant_worker(self, grantee: iam.IGrantable) -> None:
        """What a lease worker does, but for its log and its network: for a role that was imported as immutable."""
        for statement in self._worker_duties().values():
            if statement is not None:
                roles.grant(grantee, statement.actions, *statement.resources)

    def grant_process(self, grantee: iam.IGrantable) -> None:
        """What `sublet run` and `sublet.Consumer` do, beside this deployment and on the same leases."""
        roles.grant(grantee, roles.PROCESS_ON_LEASES, self.lease_table.table_arn)
        roles.grant(grantee, roles.LEASE_MANAGER_ON_SIGHTINGS, self.sightings_table.table_arn)
        roles.grant(grantee, roles.PROCESS_ON_STREAM, self.stream.stream_arn)
        kcl = self._on_kcl(roles.PROCESS_ON_REPORTS, roles.LEASE_MANAGER_ON_KCL_STATE)
        for statement in (self._on_failure_duties() | kcl).values():
            if statement is not None:
                roles.grant(grantee, statement.actions, *statement.resources)
        if self.stream_key is not None:
            roles.grant(grantee, ["kms:Decrypt"], self.stream_key.key_arn)

    def grant_redrive(self, grantee: iam.IGrantable) -> None:
        """`sublet redrive`: to take out of the failure destination what has been handled after all."""
        if self.destination is None:
            raise SettingsError("on_failure", None, "what a redrive would be from")
        self.destination.grant_redrive(grantee, self.settings.application)

    def _on_kcl(self, reports: Sequence[str], state: Sequence[str] = ()) -> dict[str, iam.PolicyStatement]:
        return roles.on_kcl(self, self.settings, reports, state) if self._may_join_kcl else {}

    def _on_failure_duties(self) -> dict[str, iam.PolicyStatement | None]:
        return self.destination.duties(self.settings.application) if self.destination else {}

    def _worker_code(self, handler_code: Path, dot_files: Collection[str]) -> Path:
        target = stage_folder(self) / f"handler-{self.node.addr}"
        platform = platform_of(self.shape.runtime, self.shape.architecture)
        handler, contract = self.settings.handler, self.settings.handler_contract
        return stage_handler(
            handler_code, handler, LEASE_WORKER_ENTRY_POINT, target, platform, dot_files, contract
        )

    def _worker_duties(self) -> dict[str, iam.PolicyStatement | None]:
        return {
            "leases": roles.allow(roles.LEASE_WORKER_ON_LEASES, self.lease_table.table_arn),
            **self._on_kcl(roles.LEASE_WORKER_ON_REPORTS),
            "stream": roles.allow(roles.LEASE_WORKER_ON_STREAM, self.stream.stream_arn),
            "stream-key": self._decrypts(),
            **self._on_failure_duties(),
        }

    def _decrypts(self) -> iam.PolicyStatement | None:
        key = self.stream_key
        return roles.allow(["kms:Decrypt"], key.key_arn) if key else None

    def _manager(self, concurrency: int | None) -> lambda_.Function:
        duties: dict[str, iam.PolicyStatement | None] = {
            "leases": roles.allow(roles.LEASE_MANAGER_ON_LEASES, self.lease_table.table_arn),
            **self._on_kcl(roles.LEASE_MANAGER_ON_REPORTS, roles.LEASE_MANAGER_ON_KCL_STATE),
            "sightings": roles.allow(roles.LEASE_MANAGER_ON_SIGHTINGS, self.sightings_table.table_arn),
            "stream": roles.allow(roles.LEASE_MANAGER_ON_STREAM, self.stream.stream_arn),
            "stream-key": self._decrypts(),
            "start-workers": roles.allow(["states:StartExecution"], self.state_machine_arn),
            "dead-letters": roles.allow(["sqs:SendMessage"], self.dead_letters.queue_arn),
        }
        own = {STATE_MACHINE_VARIABLE: self.state_machine_arn}
        size = FunctionSize(MANAGER_MEMORY, MANAGER_TIMEOUT, concurrency)
        manager = add_function(
            self, "LeaseManager", self.shape, size, plain_asset(LEASE_MANAGER_CODE), duties, Own(own)
        )
        # What was delivered but failed, twice retried. (L1: the L2 would also grant reading the queue's
        # attributes.)
        lambda_.CfnEventInvokeConfig(
            self,
            "FailedTicks",
            function_name=manager.function_name,
            qualifier="$LATEST",
            maximum_event_age_in_seconds=int(UNDELIVERED_AFTER.to_seconds()),
            maximum_retry_attempts=2,
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                    destination=self.dead_letters.queue_arn
                )
            ),
        )
        return manager

    def _rule(self, schedule: events.Schedule) -> events.Rule:
        """A rule rather than EventBridge Scheduler: it is free, needs no role, and every emulator has it."""
        tick = targets.LambdaFunction(
            self.manager,
            dead_letter_queue=self.dead_letters,
            retry_attempts=2,
            max_event_age=UNDELIVERED_AFTER,
        )
        rule = events.Rule(
            self,
            "Tick",
            description=f"sublet: ticks of {self.settings.application}",
            schedule=schedule,
            targets=[tick],
        )
        rule.node.add_dependency(self.state_machine)
        return rule
