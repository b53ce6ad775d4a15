"""Checks that existing streams and tables can be used from where the stack is deployed."""

from __future__ import annotations

from typing import NamedTuple

from aws_cdk import Annotations, IResource, Stack, Token, region_info
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct
from sublet.errors import SettingsError

ANOTHER_ACCOUNT = "sublet:stream-of-another-account"


class Place(NamedTuple):
    """A region and an account; None if only known at deployment."""

    region: str | None
    account: str | None


def place_of(arn: str) -> Place:
    parts = arn.split(":")
    return Place(_known(parts[3]), _known(parts[4])) if len(parts) > 4 else Place(None, None)


def _place(arn: str, resource: IResource) -> Place:
    """Returns a resource's place, by its ARN first, because CDK assumes the stack's own place for a table imported by
    its ARN.
    """
    if not Token.is_unresolved(arn):
        return place_of(arn)
    return Place(_known(resource.env.region), _known(resource.env.account))


def check_stream(scope: Construct, stream: kinesis.IStream | None) -> None:
    """Raises SettingsError for a stream of another region: the functions call their own region's Kinesis. A stream of
    another account can be read if that account allows it; a warning at synth says what is needed."""
    if stream is None:  # of several streams, each process checks the ARNs that it is given
        return
    here, there = place_of_stack(scope), _place(stream.stream_arn, stream)
    if _differ(here.region, there.region):
        raise SettingsError(
            "stream",
            stream.stream_arn,
            f"a stream in {here.region}, where the stack is; or deploy in {there.region}, where the stream is",
        )
    if _differ(here.account, there.account):
        Annotations.of(scope).add_warning_v2(
            ANOTHER_ACCOUNT,
            f"{stream.stream_arn} is in account {there.account}, the stack in {here.account}. That works if the "
            "stream's resource policy lets the roles of this stack call kinesis:DescribeStreamSummary, ListShards, "
            "GetShardIterator and GetRecords, and if its key is not aws/kinesis, which only its own account can use "
            "(stream_key names another).",
        )


def check_table(scope: Construct, name: str, table: dynamodb.ITable, stream: kinesis.IStream | None) -> None:
    """Raises SettingsError for a table of another region or account: a table is addressed by its name, which refers
    to the stack's own."""
    here, there = place_of_stack(scope), _place(table.table_arn, table)
    of_stream = None if stream is None else _place(stream.stream_arn, stream).region
    region = here.region or of_stream  # the stack will be where the stream is
    if _differ(region, there.region) or _differ(here.account, there.account):
        where = f" ({region})" if region else ""
        raise SettingsError(name, table.table_arn, f"a table in the stack's own region{where} and account")


def is_elsewhere(scope: Construct, arn: str) -> bool:
    """True for a resource that is known to be of another region or account than the stack."""
    here, there = place_of_stack(scope), Place(None, None) if Token.is_unresolved(arn) else place_of(arn)
    return _differ(here.region, there.region) or _differ(here.account, there.account)


def place_of_stack(scope: Construct) -> Place:
    stack = Stack.of(scope)
    return Place(_known(stack.region), _known(stack.account))


def partition_of(stack: Stack) -> str:
    """Of the stack's region, since CDK has a token for it even in a region that is known; `aws` in one that is not."""
    region = _known(stack.region)
    return (region and region_info.RegionInfo.get(region).partition) or "aws"


def domain_of(stack: Stack) -> str:
    """The domain of the partition's service principals, such as amazonaws.com.cn; a token in a region that is not
    known."""
    region = _known(stack.region)
    return (region and region_info.RegionInfo.get(region).domain_suffix) or stack.url_suffix


def _known(text: str) -> str | None:
    return None if not text or Token.is_unresolved(text) else text


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
