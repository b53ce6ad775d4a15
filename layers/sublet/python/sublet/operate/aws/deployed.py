"""Asks AWS what it has of an application before `sublet deploy` deploys it. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.aws.faults import code_of
from sublet.operate.aws.inspection import asking
from sublet.operate.rules import stack_names
from sublet.operate.rules.deploying import DASHBOARD, Found, FoundTable, monitoring_of, table_keys

TABLE = "AWS::DynamoDB::Table"
GONE = frozenset({"DELETE_COMPLETE", "DELETE_SKIPPED"})
"""A resource that its stack does not have any more; it may exist."""
NO_SUCH_STACK = "ValidationError"
NO_SUCH_DASHBOARD = frozenset({"ResourceNotFound", "ResourceNotFoundException", "DashboardNotFoundError"})

BOOTSTRAP_STACK = "CDKToolkit"
"""Of `cdk bootstrap`, with the bucket for the stack's files."""

Resource = Mapping[str, Any]


def find(application: str, region: str | None, profile: str | None) -> Found:
    """`region`: None for that of the profile. Raises CheckRefused, and AwsNotConfigured."""
    try:
        session = boto3.session.Session(profile_name=profile, region_name=region)
        asked = _Account(session, stack_names.consumer_stack(application))
        region = asked.region
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    own = asked.own_resources()
    tables = {name: asked.table(name, own) for name in table_keys(application).values()}
    dashboards = [each["PhysicalResourceId"] for each in own if each["ResourceType"] == DASHBOARD]
    plain = stack_names.dashboard(application)
    level = monitoring_of({each["ResourceType"] for each in own})
    return Found(region, tables, dashboards[0] if dashboards else None, asked.has_dashboard(plain), level)


def account_of(region: str | None, profile: str | None) -> str:
    """The account's number. Raises CheckRefused, and AwsNotConfigured."""
    try:
        session = boto3.session.Session(profile_name=profile, region_name=region)
        sts = clients.sts_client(session=session)
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    with asking("sts:GetCallerIdentity"):
        return str(sts.get_caller_identity()["Account"])


def is_bootstrapped(region: str | None, profile: str | None) -> bool:
    """Whether `cdk bootstrap` has run in the account and region. Raises CheckRefused, and AwsNotConfigured."""
    session = boto3.session.Session(profile_name=profile, region_name=region)
    return bool(_Account(session, BOOTSTRAP_STACK).own_resources())


class _Account:
    def __init__(self, session: Any, stack: str) -> None:
        self._stack = stack
        self._cloudformation = clients.cloudformation_client(session=session)
        self._dynamodb = clients.dynamodb_client(session=session)
        self._cloudwatch = clients.cloudwatch_client(session=session)
        self.region = str(self._dynamodb.meta.region_name)

    def own_resources(self) -> list[Resource]:
        return self._resources(self._stack)

    def _resources(self, stack: str) -> list[Resource]:
        """Empty if the stack does not exist."""
        with asking("cloudformation:ListStackResources"):
            try:
                return list(_living(self._pages(stack)))
            except ClientError as error:
                if code_of(error) == NO_SUCH_STACK:
                    return []
                raise

    def _pages(self, stack: str) -> Iterator[Resource]:
        for page in self._cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack):
            yield from page["StackResourceSummaries"]

    def table(self, name: str, own: list[Resource]) -> FoundTable:
        with asking("dynamodb:DescribeTable"):
            try:
                self._dynamodb.describe_table(TableName=name)
            except self._dynamodb.exceptions.ResourceNotFoundException:
                return FoundTable(exists=False)
        is_own = any(_is_table(each, name) for each in own)
        return FoundTable(True, self._stack if is_own else self._stack_of(name))

    def _stack_of(self, name: str) -> str | None:
        """A stream of the same name may belong to another stack, which is then the one that CloudFormation names. It
        names the first hundred resources of a stack, so the table may not be among them.
        """
        with asking("cloudformation:DescribeStackResources"):
            try:
                found = self._cloudformation.describe_stack_resources(PhysicalResourceId=name)["StackResources"]
            except ClientError as error:
                if code_of(error) == NO_SUCH_STACK:
                    return None
                raise
        named = dict.fromkeys(str(each["StackName"]) for each in found)
        return next((stack for stack in named if any(_is_table(each, name) for each in self._resources(stack))), None)

    def has_dashboard(self, name: str) -> bool:
        with asking("cloudwatch:GetDashboard"):
            try:
                self._cloudwatch.get_dashboard(DashboardName=name)
            except ClientError as error:
                if code_of(error) in NO_SUCH_DASHBOARD:
                    return False
                raise
        return True


def _living(resources: Any) -> Iterator[Resource]:
    return (each for each in resources if each["ResourceStatus"] not in GONE)


def _is_table(resource: Resource, name: str) -> bool:
    return resource["ResourceType"] == TABLE and resource.get("PhysicalResourceId") == name
