"""The embedded CloudFormation refuses a name that exists, as the service does, rolls back, and leaves what had the name
as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from infra.local import EmbeddedAws

pytestmark = pytest.mark.emulator

TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
MACHINE = json.dumps({"StartAt": "End", "States": {"End": {"Type": "Pass", "End": True}}})


def table(name: str) -> dict[str, Any]:
    return {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "TableName": name,
            "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    }


def dashboard(name: str, body: str = "{}") -> dict[str, Any]:
    return {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardName": name, "DashboardBody": body}}


def log_group(name: str) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}}


def machine(name: str) -> dict[str, Any]:
    role = "arn:aws:iam::000000000000:role/any"
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {"StateMachineName": name, "RoleArn": role, "DefinitionString": MACHINE},
    }


def role(name: str) -> dict[str, Any]:
    return {"Type": "AWS::IAM::Role", "Properties": {"RoleName": name, "AssumeRolePolicyDocument": TRUST}}


def function(name: str) -> dict[str, Any]:
    properties = {
        "FunctionName": name,
        "Runtime": "python3.11",
        "Handler": "index.handle",
        "Role": "arn:aws:iam::000000000000:role/any",
        "Code": {"ZipFile": "def handle(event, context): ..."},
    }
    return {"Type": "AWS::Lambda::Function", "Properties": properties}


KINDS = {"table": table, "dashboard": dashboard, "log group": log_group, "machine": machine, "role": role}
KINDS["function"] = function


class Stacks:
    """CloudFormation of one region, with templates of some resources each."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.cloudformation = aws.client("cloudformation")

    def create(self, name: str, **resources: Mapping[str, Any]) -> str:
        """The stack's status in the end."""
        self.cloudformation.create_stack(StackName=name, **_given(resources))
        return self._status(name, "stack_create_complete")

    def update(self, name: str, **resources: Mapping[str, Any]) -> str:
        self.cloudformation.update_stack(StackName=name, **_given(resources))
        return self._status(name, "stack_update_complete")

    def delete(self, name: str) -> None:
        self.cloudformation.delete_stack(StackName=name)
        self.cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1})

    def reasons(self, name: str) -> list[str]:
        events = self.cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        failed = [each for each in events if each["ResourceStatus"] in ("CREATE_FAILED", "UPDATE_FAILED")]
        return [each.get("ResourceStatusReason", "") for each in failed]

    def _status(self, name: str, waiter: str) -> str:
        with suppress(WaiterError):  # it has failed, and its status says how
            self.cloudformation.get_waiter(waiter).wait(StackName=name, WaiterConfig={"Delay": 1})
        return str(self.cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


def _given(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {"TemplateBody": json.dumps({"Resources": resources}), "Capabilities": ["CAPABILITY_NAMED_IAM"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_stack_with_the_name_is_rolled_back(embedded_aws: EmbeddedAws, kind: str) -> None:
    stacks, name = Stacks(embedded_aws), f"taken-{kind.replace(' ', '-')}"
    first = KINDS[kind](name)
    assert stacks.create(f"{name}-first", It=first) == "CREATE_COMPLETE"

    assert stacks.create(f"{name}-second", It=KINDS[kind](name)) == "ROLLBACK_COMPLETE"

    (reason, *_) = stacks.reasons(f"{name}-second")
    assert f"'{first['Type']}' with identifier '{name}' already exists" in reason
    first["Properties"]["Tags"] = [{"Key": "team", "Value": "orders"}]
    assert stacks.update(f"{name}-first", It=first, Other=log_group(f"{name}-other")) == "UPDATE_COMPLETE"


def test_a_table_that_no_stack_made_keeps_its_items(embedded_aws: EmbeddedAws) -> None:
    dynamodb: Any = embedded_aws.client("dynamodb")
    dynamodb.create_table(**table("taken-by-a-process")["Properties"])
    item = {"leaseKey": {"S": "shardId-000000000000"}}
    dynamodb.put_item(TableName="taken-by-a-process", Item=item)

    status = Stacks(embedded_aws).create("takes-a-table", Log=log_group("beside"), It=table("taken-by-a-process"))

    assert status == "ROLLBACK_COMPLETE"
    assert dynamodb.scan(TableName="taken-by-a-process")["Items"] == [item]
    groups = embedded_aws.client("logs").describe_log_groups(logGroupNamePrefix="beside")["logGroups"]
    assert groups == [], "what the stack had made before is removed"


def test_a_dashboard_is_taken_in_every_region_and_a_table_only_in_its_own(embedded_aws: EmbeddedAws) -> None:
    elsewhere = embedded_aws.in_region("eu-west-1")
    here, there = Stacks(embedded_aws), Stacks(elsewhere)
    assert here.create("here", It=dashboard("shown-once"), Table=table("once-a-region")) == "CREATE_COMPLETE"

    assert there.create("there-table", It=table("once-a-region")) == "CREATE_COMPLETE"
    assert there.create("there", It=dashboard("shown-once")) == "ROLLBACK_COMPLETE"
    shown = elsewhere.client("cloudwatch").get_dashboard(DashboardName="shown-once")
    assert shown["DashboardName"] == "shown-once"


def test_a_role_of_a_chosen_name_is_another_one_in_another_region(embedded_aws: EmbeddedAws) -> None:
    """Roles belong to the account: a second region's stack must not take those of the first."""
    unnamed: dict[str, Any] = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}}
    stacks = [Stacks(embedded_aws), Stacks(embedded_aws.in_region("eu-west-1"))]
    assert [each.create("in-two-regions", It=unnamed) for each in stacks] == ["CREATE_COMPLETE"] * 2
    described = {**unnamed, "Properties": {**unnamed["Properties"], "Description": "updated"}}
    assert [each.update("in-two-regions", It=described) for each in stacks] == ["UPDATE_COMPLETE"] * 2

    found = [each.cloudformation.describe_stack_resources(StackName="in-two-regions") for each in stacks]
    names = {each["StackResources"][0]["PhysicalResourceId"] for each in found}
    assert len(names) == 2
    assert names <= {role["RoleName"] for role in embedded_aws.client("iam").list_roles()["Roles"]}


@pytest.mark.parametrize("kind", ["table", "dashboard", "log group"])
def test_a_resource_cannot_be_renamed_to_a_name_that_exists(embedded_aws: EmbeddedAws, kind: str) -> None:
    stacks, name = Stacks(embedded_aws), f"renamed-{kind.replace(' ', '-')}"
    make = KINDS[kind]
    assert stacks.create(name, It=make(name), Other=make(f"{name}-other")) == "CREATE_COMPLETE"

    assert stacks.update(name, It=make(f"{name}-other"), Other=make(f"{name}-third")) == "UPDATE_ROLLBACK_COMPLETE"
    assert stacks.update(name, It=make(f"{name}-new"), Other=make(f"{name}-other")) == "UPDATE_COMPLETE"


def test_a_retained_table_outlives_its_stack_but_not_a_failed_creation(embedded_aws: EmbeddedAws) -> None:
    stacks, dynamodb = Stacks(embedded_aws), embedded_aws.client("dynamodb")
    kept = {**table("kept"), "DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
    assert stacks.create("keeps", Kept=kept) == "CREATE_COMPLETE"
    stacks.delete("keeps")
    assert "kept" in dynamodb.list_tables()["TableNames"]

    never = {**table("never-kept"), "DeletionPolicy": "RetainExceptOnCreate"}
    fails = {**table("kept"), "DependsOn": ["Never"]}
    assert stacks.create("fails", Never=never, It=fails) == "ROLLBACK_COMPLETE"
    assert "never-kept" not in dynamodb.list_tables()["TableNames"]
    assert "kept" in dynamodb.list_tables()["TableNames"]


def test_a_table_that_leaves_the_template_is_kept_by_the_policy_it_was_deployed_with(embedded_aws: EmbeddedAws) -> None:
    """Which is why a release that only retains must come before one in which a table may leave."""
    stacks, dynamodb = Stacks(embedded_aws), embedded_aws.client("dynamodb")
    for name, policy in (("leaves-deleted", {}), ("leaves-kept", {"DeletionPolicy": "RetainExceptOnCreate"})):
        assert stacks.create(name, It={**table(name), **policy}, Log=log_group(name)) == "CREATE_COMPLETE"
        assert stacks.update(name, Log=log_group(name)) == "UPDATE_COMPLETE"
    names = dynamodb.list_tables()["TableNames"]
    assert ("leaves-deleted" in names, "leaves-kept" in names) == (False, True)
