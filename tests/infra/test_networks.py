"""Networks that cannot work are refused at synth; those that can, and those that cannot be seen, are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Annotations, Match, Template
from sublet.errors import SettingsError
from sublet_cdk import KinesisConsumer, KinesisConsumerService

from tests.infra.apps import an_app, code_and_layer

ISOLATED = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
PUBLIC = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
WORKERS = {"Streams": "KINESIS_STREAMS"}
TASKS = {**WORKERS, "Logs": "CLOUDWATCH_LOGS", "Api": "ECR", "Images": "ECR_DOCKER"}


class Deployed:
    """A stack with one construct in a network."""

    def __init__(self, code: Path, layer: Path, region: str = "eu-central-1", partition: str = "aws") -> None:
        self.stack = Stack(an_app(), "orders", env=Environment(account="123456789012", region=region))
        self._code, self._layer = code, layer
        arn = f"arn:{partition}:kinesis:{region}:123456789012:stream/orders"
        self._given: dict[str, Any] = {
            "application": "orders-audit",
            "stream": kinesis.Stream.from_stream_arn(self.stack, "Stream", arn),
            "handler": "orders:handle",
        }

    def worker(self, **properties: Any) -> KinesisConsumer:
        given = {**self._given, "handler_code": str(self._code), "dependencies_layer": self._layer}
        return KinesisConsumer(self.stack, "Audit", **given, **properties)

    def task(self, **properties: Any) -> KinesisConsumerService:
        code: dict[str, Any] = (
            {} if "image" in properties else {"handler_code": str(self._code), "dependencies": self._layer}
        )
        return KinesisConsumerService(self.stack, "Audit", **self._given, **code, **properties)

    def network(self, *kinds: ec2.SubnetType) -> ec2.Vpc:
        subnets = [ec2.SubnetConfiguration(name=kind.name.lower(), subnet_type=kind) for kind in kinds]
        return ec2.Vpc(self.stack, "Vpc", subnet_configuration=subnets)

    def imported(self, **subnets: Any) -> ec2.IVpc:
        return ec2.Vpc.from_vpc_attributes(
            self.stack, "Vpc", vpc_id="vpc-12345678", availability_zones=["eu-central-1a"], **subnets
        )

    def template(self) -> Template:
        return Template.from_stack(self.stack)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return code_and_layer(tmp_path_factory.mktemp("networks"))


@pytest.fixture
def deployed(parts: tuple[Path, Path]) -> Deployed:
    return Deployed(*parts)


def with_endpoints(vpc: ec2.Vpc, names: dict[str, str], *gateways: str) -> None:
    for name, service in names.items():
        vpc.add_interface_endpoint(name, service=getattr(ec2.InterfaceVpcEndpointAwsService, service))
    for name in gateways:
        vpc.add_gateway_endpoint(name, service=getattr(ec2.GatewayVpcEndpointAwsService, name))


def test_worker_in_public_subnets_is_refused(deployed: Deployed) -> None:
    with pytest.raises(SettingsError, match=r"vpc_subnets = 'public'.*no public address"):
        deployed.worker(vpc=deployed.imported(public_subnet_ids=["subnet-1"]))


def test_worker_in_stated_public_subnets_is_refused(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PUBLIC, ec2.SubnetType.PRIVATE_WITH_EGRESS)
    with pytest.raises(SettingsError, match="vpc_subnets = 'public'"):
        deployed.worker(vpc=vpc, vpc_subnets=PUBLIC)


def test_task_in_public_subnets_without_an_address_is_refused(deployed: Deployed) -> None:
    with pytest.raises(SettingsError, match="assign_public_ip=True"):
        deployed.task(vpc=deployed.imported(public_subnet_ids=["subnet-1"]))


def test_task_in_public_subnets_with_an_address_is_deployed(deployed: Deployed) -> None:
    deployed.task(vpc=deployed.network(ec2.SubnetType.PUBLIC), assign_public_ip=True)
    deployed.template().resource_count_is("AWS::ECS::Service", 1)


def test_tasks_own_cluster_is_looked_at_too(deployed: Deployed) -> None:
    vpc = deployed.imported(public_subnet_ids=["subnet-1"])
    cluster = ecs.Cluster(deployed.stack, "Theirs", vpc=vpc)
    with pytest.raises(SettingsError, match="assign_public_ip=True"):
        deployed.task(cluster=cluster)


@pytest.mark.parametrize("subnets", [None, ISOLATED])
def test_worker_in_isolated_subnets_without_endpoints_is_refused_at_synth(
    deployed: Deployed, subnets: ec2.SubnetSelection | None
) -> None:
    deployed.worker(vpc=deployed.network(ec2.SubnetType.PRIVATE_ISOLATED), vpc_subnets=subnets)
    with pytest.raises(Exception, match="endpoints in the network for kinesis-streams, dynamodb"):
        deployed.template()


def test_worker_needs_the_endpoint_of_its_failure_destination(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    deployed.worker(vpc=vpc, on_failure=sqs.Queue(deployed.stack, "Failed"), maximum_retry_attempts=5)
    with_endpoints(vpc, WORKERS, "DYNAMODB")
    with pytest.raises(Exception, match="endpoints in the network for sqs"):
        deployed.template()


def test_worker_needs_the_endpoint_of_its_schemas_registry(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    deployed.worker(vpc=vpc, payload_format="glue")
    with_endpoints(vpc, WORKERS, "DYNAMODB")
    with pytest.raises(Exception, match="endpoints in the network for glue"):
        deployed.template()


def test_worker_in_isolated_subnets_with_endpoints_that_are_added_later_is_deployed(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    deployed.worker(vpc=vpc)
    with_endpoints(vpc, WORKERS, "DYNAMODB")
    deployed.template().resource_count_is("AWS::EC2::VPCEndpoint", 2)


def test_isolated_subnet_with_a_route_of_its_own_is_not_refused(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    for subnet in vpc.isolated_subnets:
        ec2.CfnRoute(
            cast("ec2.Subnet", subnet),
            "ThroughTheHub",
            route_table_id=subnet.route_table.route_table_id,
            destination_cidr_block="0.0.0.0/0",
            transit_gateway_id="tgw-1",
        )
    deployed.worker(vpc=vpc)
    deployed.template()


def test_isolated_subnets_of_an_imported_network_get_a_warning(deployed: Deployed) -> None:
    """Its endpoints are not known, so a stack that works is not refused."""
    deployed.worker(vpc=deployed.imported(isolated_subnet_ids=["subnet-1"]))
    deployed.template()
    Annotations.from_stack(deployed.stack).has_warning("*", Match.string_like_regexp("kinesis-streams, dynamodb"))


def test_public_image_of_a_task_cannot_be_had_in_isolated_subnets(deployed: Deployed) -> None:
    with pytest.raises(SettingsError, match="image in a registry of your own"):
        deployed.task(vpc=deployed.network(ec2.SubnetType.PRIVATE_ISOLATED))


def test_task_with_its_own_image_needs_endpoints_for_log_and_image(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    deployed.task(vpc=vpc, image=ecs.ContainerImage.from_registry("registry/orders"))
    with_endpoints(vpc, WORKERS, "DYNAMODB")
    with pytest.raises(Exception, match=r"endpoints in the network for logs, ecr\.api, ecr\.dkr, s3"):
        deployed.template()


def test_task_in_isolated_subnets_with_every_endpoint_is_deployed(deployed: Deployed) -> None:
    vpc = deployed.network(ec2.SubnetType.PRIVATE_ISOLATED)
    deployed.task(vpc=vpc, image=ecs.ContainerImage.from_registry("registry/orders"))
    with_endpoints(vpc, TASKS, "DYNAMODB", "S3")
    deployed.template().resource_count_is("AWS::ECS::Service", 1)


def test_network_with_a_nat_gateway_is_deployed_without_a_word(deployed: Deployed) -> None:
    deployed.worker(vpc=deployed.network(ec2.SubnetType.PUBLIC, ec2.SubnetType.PRIVATE_WITH_EGRESS))
    deployed.template()
    Annotations.from_stack(deployed.stack).has_no_warning("*", Match.string_like_regexp("isolated"))


@pytest.mark.parametrize(
    ("region", "partition", "principal", "console"),
    [
        ("cn-north-1", "aws-cn", "logs.cn-north-1.amazonaws.com.cn", "console.amazonaws.cn"),
        ("us-gov-west-1", "aws-us-gov", "logs.us-gov-west-1.amazonaws.com", "console.amazonaws-us-gov.com"),
        ("eusc-de-east-1", "aws-eusc", "logs.eusc-de-east-1.amazonaws.eu", "console.amazonaws-eusc.eu"),
        ("eu-central-1", "aws", "logs.eu-central-1.amazonaws.com", "console.aws.amazon.com"),
    ],
)
def test_logs_key_and_links_name_what_the_partition_has(
    parts: tuple[Path, Path], region: str, partition: str, principal: str, console: str
) -> None:
    deployed = Deployed(*parts, region, partition)
    deployed.worker(log_key=kms.Key(deployed.stack, "Key"))
    (key,) = deployed.template().find_resources("AWS::KMS::Key").values()
    said = [each["Principal"] for each in key["Properties"]["KeyPolicy"]["Statement"]]
    assert {"Service": principal} in said
    alarms = deployed.template().find_resources("AWS::CloudWatch::Alarm").values()
    linked = [text for each in alarms if "https://" in (text := str(each["Properties"]["AlarmDescription"]))]
    assert linked
    assert all(f"https://{console}/" in text for text in linked)


def test_logs_key_in_a_region_that_is_not_known_has_the_partitions_domain(parts: tuple[Path, Path]) -> None:
    app: App = an_app()
    stack = Stack(app, "orders")
    code, layer = parts
    KinesisConsumer(
        stack,
        "Audit",
        application="orders-audit",
        stream=kinesis.Stream.from_stream_arn(
            stack, "Stream", "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
        ),
        handler_code=str(code),
        handler="orders:handle",
        dependencies_layer=layer,
        log_key=kms.Key(stack, "Key"),
    )
    (key,) = Template.from_stack(stack).find_resources("AWS::KMS::Key").values()
    said = [each["Principal"] for each in key["Properties"]["KeyPolicy"]["Statement"]]
    assert {"Service": {"Fn::Join": ["", ["logs.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}} in said
