"""What `sublet deploy` finds of an application in its account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.stub import Stubber
from sublet.operate.aws.deployed import _Account
from sublet.operate.rules.deploying import FoundTable

AT = datetime(2026, 11, 29, tzinfo=UTC)
TABLE = ("AWS::DynamoDB::Table", "orders")


def summary(resource: tuple[str, str], **more: Any) -> dict[str, Any]:
    kind, physical = resource
    return {
        "LogicalResourceId": f"R{physical}".replace("-", ""),
        "ResourceType": kind,
        "PhysicalResourceId": physical,
        "ResourceStatus": "CREATE_COMPLETE",
        **more,
    }


def test_table_of_a_stack_with_over_100_resources_is_found_to_be_that_stacks() -> None:
    session = boto3.session.Session(
        aws_access_key_id="x",
        aws_secret_access_key="x",
        region_name="eu-west-1",
    )
    account = _Account(session, "sublet-orders")
    first = [("AWS::SQS::Queue", f"queue-{n}") for n in range(100)]
    with Stubber(account._cloudformation) as cloudformation, Stubber(account._dynamodb) as dynamodb:
        dynamodb.add_response("describe_table", {"Table": {"TableName": "orders"}}, {"TableName": "orders"})
        cloudformation.add_response(
            "describe_stack_resources",
            {"StackResources": [summary(each, StackName="everything", Timestamp=AT) for each in first]},
            {"PhysicalResourceId": "orders"},
        )
        listed = [summary(each, LastUpdatedTimestamp=AT) for each in (*first, TABLE)]
        for begin, token in ((0, {}), (100, {"NextToken": "more"})):
            page = {"StackResourceSummaries": listed[begin : begin + 100], **({} if begin else {"NextToken": "more"})}
            cloudformation.add_response("list_stack_resources", page, {"StackName": "everything", **token})
        assert account.table("orders", []) == FoundTable(True, "everything")
