"""Customer-managed KMS keys of the stream, the tables and the failure destination: who may use which."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template
from sublet.errors import SettingsError
from sublet_cdk import roles

from tests.infra.apps import an_app
from tests.infra.conftest import Build
from tests.infra.test_kinesis_consumer import role

KEY_ARN = "arn:aws:kms:eu-central-1:123456789012:key/1"
QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:given-up"

ON_STREAM = {"kms:Decrypt"}
ON_TABLES = set(roles.ON_TABLES_KEY)
ON_DESTINATION = {"kms:Decrypt", "kms:GenerateDataKey"}


def a_key() -> kms.IKey:
    return kms.Key.from_key_arn(Stack(an_app(), "keys"), "Key", KEY_ARN)


def a_table(name: str = "orders-audit") -> dynamodb.ITable:
    """A KCL fleet's table, under its owner's key."""
    return dynamodb.Table.from_table_attributes(
        Stack(an_app(), "tables"), "Table", table_name=name, encryption_key=a_key()
    )


def may(template: Template, function: str) -> dict[str, set[str]]:
    """The duties of a function's role on the key."""
    return {duty: actions for duty, (actions, resource) in role(template, function).items() if resource == KEY_ARN}


def test_stack_has_no_kms_keys_by_default(build: Build) -> None:
    template = Template.from_stack(build())
    assert may(template, "LeaseWorker") == may(template, "LeaseManager") == {}
    for table in template.find_resources("AWS::DynamoDB::Table").values():
        assert "SSESpecification" not in table["Properties"]


@pytest.mark.parametrize(
    ("name", "worker", "manager"),
    [
        ("stream_key", {"stream-key": ON_STREAM}, {"stream-key": ON_STREAM}),
        ("lease_table_key", {"tables-key": ON_TABLES}, {"tables-key": ON_TABLES}),
        ("on_failure_key", {"on-failure-key": ON_DESTINATION}, {}),
    ],
)
@pytest.mark.parametrize("given_as", ["property", "context"])
def test_each_key_may_be_used_by_the_functions_that_need_it(
    build: Build, name: str, worker: dict[str, set[str]], manager: dict[str, set[str]], given_as: str
) -> None:
    failing = {"on_failure": QUEUE_ARN, "maximum_retry_attempts": "3"}
    given: dict[str, Any] = {name: a_key()} if given_as == "property" else {}
    context = failing | ({f"{name}_arn": KEY_ARN} if given_as == "context" else {})
    template = Template.from_stack(build(context, **given))
    assert may(template, "LeaseWorker") == worker
    assert may(template, "LeaseManager") == manager


def test_both_tables_are_encrypted_with_the_given_key(build: Build) -> None:
    tables = Template.from_stack(build(lease_table_key=a_key())).find_resources("AWS::DynamoDB::Table")
    assert [each["Properties"]["SSESpecification"] for each in tables.values()] == [
        {"KMSMasterKeyId": KEY_ARN, "SSEEnabled": True, "SSEType": "KMS"}
    ] * 2


def test_the_key_of_a_lease_table_that_there_is_may_be_used_without_being_named(build: Build) -> None:
    template = Template.from_stack(build(lease_table=a_table()))
    assert may(template, "LeaseWorker") == may(template, "LeaseManager") == {"tables-key": ON_TABLES}


@pytest.mark.parametrize(
    ("grant", "actions"),
    [
        ("grant_process", ON_TABLES | ON_STREAM | ON_DESTINATION),
        ("grant_worker", ON_TABLES | ON_STREAM | ON_DESTINATION),
        ("grant_read_leases", set(roles.READER_ON_TABLES_KEY)),
        ("grant_redrive", {"kms:Decrypt"}),
    ],
)
def test_a_grantee_may_use_the_keys_too(build: Build, grant: str, actions: set[str]) -> None:
    key = a_key()
    stack = build(
        {"on_failure": QUEUE_ARN, "maximum_retry_attempts": "3"},
        stream_key=key,
        lease_table_key=key,
        on_failure_key=key,
    )
    theirs = iam.Role(stack, "Theirs", assumed_by=iam.AccountRootPrincipal())
    getattr(stack.consumer, grant)(theirs)
    (policy,) = [
        each["Properties"]["PolicyDocument"]["Statement"]
        for name, each in Template.from_stack(stack).find_resources("AWS::IAM::Policy").items()
        if name.startswith("Theirs")
    ]
    found: set[str] = set()
    for statement in policy:
        if statement["Resource"] == KEY_ARN:
            said = statement["Action"]
            found |= {said} if isinstance(said, str) else set(said)
    assert found == actions


def test_a_key_of_no_destination_is_refused(build: Build) -> None:
    with pytest.raises(SettingsError, match=r"on_failure_key = .*on_failure"):
        build(on_failure_key=a_key())
