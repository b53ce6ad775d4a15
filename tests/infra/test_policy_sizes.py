"""IAM's limits on a role's policies: many streams by name fit, with the same permissions, or synth refuses them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from sublet.errors import SettingsError
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.kinesis_consumer_service import KinesisConsumerService

from tests.exploring import explores
from tests.infra.apps import an_app, code_and_layer

INLINE, MANAGED, COUNT = 10_240, 6_144, 10
"""Of "IAM and AWS STS quotas", in characters without white space."""
JOINED = re.compile(r'\{"Fn::Join":\["",\[(.*?)\]\]\}')


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return code_and_layer(tmp_path_factory.mktemp("many"))


def consumer_of(code: Any, count: int, **given: Any) -> Stack:
    stack = Stack(an_app(), "many", env=Environment(account="123456789012", region="ap-northeast-1"))
    KinesisConsumer(
        stack,
        "Consumer",
        application="audit",
        streams=",".join(f"s{n:04}" for n in range(count)),
        handler_code=code[0],
        dependencies_layer=code[1],
        handler="orders:handle",
        deployment_check=False,
        **given,
    )
    return stack


def length(document: Any) -> int:
    """As IAM counts it, with this partition's ARNs."""
    text = json.dumps(document, separators=(",", ":"))
    text = text.replace('{"Ref":"AWS::Partition"}', '"aws"')
    text = JOINED.sub(lambda found: '"' + "".join(re.findall(r'"([^"]*)"', found[1])) + '"', text)
    return len(re.sub(r'\{"Fn::GetAtt":\["[^"]*","Arn"\]\}', '"' + "x" * 90 + '"', text))


def roles(template: Template) -> Mapping[str, tuple[list[Any], list[Any]]]:
    """The documents of inline and of managed policies, by the role."""
    found: Mapping[str, Any] = template.to_json()["Resources"]
    managed = {
        name: each["Properties"]["PolicyDocument"]
        for name, each in found.items()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    }
    return {
        name: (
            [policy["PolicyDocument"] for policy in each["Properties"].get("Policies", ())],
            [managed[arn["Ref"]] for arn in each["Properties"].get("ManagedPolicyArns", ()) if "Ref" in arn],
        )
        for name, each in found.items()
        if each["Type"] == "AWS::IAM::Role"
    }


def allowed(documents: list[Any]) -> Iterator[tuple[str, str]]:
    for document in documents:
        for statement in document["Statement"]:
            actions, resources = statement["Action"], statement["Resource"]
            for action in [actions] if isinstance(actions, str) else actions:
                for resource in resources if isinstance(resources, list) else [resources]:
                    yield action, json.dumps(resource)


FEWER = ((55, False), (160, False), (60, True))
SIZES = [(350, False), (300, True), *(pytest.param(*each, marks=explores) for each in FEWER)]


@pytest.mark.parametrize(("count", "fan_out"), SIZES)
def test_roles_of_many_streams_fit_with_each_stream_allowed(code: Any, count: int, fan_out: bool) -> None:
    given: dict[str, Any] = {"fan_out": "audit", "mode": "continuous"} if fan_out else {}
    for name, (inline, managed) in roles(Template.from_stack(consumer_of(code, count, **given))).items():
        assert sum(map(length, inline)) <= INLINE, name
        assert len(managed) <= COUNT, name
        assert all(length(document) <= MANAGED for document in managed), name
        if not name.startswith(("ConsumerLeaseManagerRole", "ConsumerLeaseWorkerRole")):
            continue
        found = list(allowed([*inline, *managed]))
        assert len(found) == len(set(found))
        reads = [where for action, where in found if action == "kinesis:GetRecords"]
        assert [where.rpartition("/")[2].strip('"]} ') for where in reads] == [f"s{n:04}" for n in range(count)]
        if fan_out and name.startswith("ConsumerLeaseWorkerRole"):
            assert len([where for action, where in found if action == "kinesis:SubscribeToShard"]) >= count


def test_few_streams_stay_in_inline_policies(code: Any) -> None:
    template = Template.from_stack(consumer_of(code, 20))
    template.resource_count_is("AWS::IAM::ManagedPolicy", 0)


def test_streams_that_no_role_can_name_are_refused_with_the_way_out(tmp_path: Any) -> None:
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    stack = Stack(an_app(), "many")
    with pytest.raises(SettingsError, match=r"at most 69,632, which IAM takes.*a pattern \(orders-\*\) or a tag"):
        KinesisConsumerService(
            stack,
            "Audit",
            application="audit",
            streams=[f"s{n:0100}" for n in range(500)],
            handler_code=tmp_path,
            handler="orders:handle",
            vpc=ec2.Vpc(stack, "Network", max_azs=1),
        )


def test_given_role_of_many_streams_gets_the_rest_as_managed_policies(code: Any) -> None:
    stack = Stack(an_app(), "given")
    role = iam.Role(stack, "Mine", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    KinesisConsumer(
        stack,
        "Consumer",
        application="audit",
        streams=",".join(f"s{n:04}" for n in range(200)),
        handler_code=code[0],
        dependencies_layer=code[1],
        handler="orders:handle",
        deployment_check=False,
        worker_role=role,
    )
    template = Template.from_stack(stack)
    ((_, managed),) = [each for name, each in roles(template).items() if name.startswith("Mine")]
    inline = [each["Properties"]["PolicyDocument"] for each in template.find_resources("AWS::IAM::Policy").values()]
    assert managed
    assert all(length(document) <= INLINE for document in inline)
    reads = [where for action, where in allowed([*inline, *managed]) if action == "kinesis:GetRecords"]
    assert len(reads) == 200


def test_grants_that_make_a_role_too_long_are_refused_at_synth(code: Any) -> None:
    app = App()
    stack = Stack(app, "granted")
    consumer = KinesisConsumer(
        stack,
        "Consumer",
        application="audit",
        streams=",".join(f"s{n:04}" for n in range(60)),
        handler_code=code[0],
        dependencies_layer=code[1],
        handler="orders:handle",
        deployment_check=False,
    )
    for n in range(60):
        consumer.worker.add_to_role_policy(
            iam.PolicyStatement(
                actions=[f"s3:{'Get' if n % 2 else 'Put'}Object"], resources=[f"arn:aws:s3:::{n:060}/*"]
            )
        )
    with pytest.raises(RuntimeError, match=r"characters of inline policies.*an iam\.ManagedPolicy"):
        app.synth()
