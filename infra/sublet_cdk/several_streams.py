"""What the roles of an application of several streams may do: on the streams by ARN, or by tag, and to find them.

IAM's wildcards are those of the setting's name patterns. A stream that is created later under such a name, or with such a tag,
needs no deployment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct
from sublet.protocol.stream_key import StreamKey
from sublet.settings import StreamChoice
from sublet_cdk import roles

FIND_STREAMS, FIND_TAGS = ["kinesis:ListStreams"], ["tag:GetResources"]
"""These have no resources: IAM allows them on all, or not at all."""


def on_streams(
    scope: Construct, choice: StreamChoice, actions: Sequence[str]
) -> Mapping[str, iam.PolicyStatement]:
    """By duty: on the named streams, and on all those that have a tag."""
    arns = list(dict.fromkeys(_arns(scope, choice)))
    duties = {"stream": roles.allow(actions, *arns)} if arns else {}
    for number, (key, value) in enumerate(choice.tags):
        statement = roles.allow(actions, _arn(scope, "*"))
        statement.add_conditions({"StringEquals": {f"aws:ResourceTag/{key}": value}})
        duties[f"stream-by-tag-{number}"] = statement
    return duties


def finding_streams(choice: StreamChoice) -> Mapping[str, iam.PolicyStatement]:
    """For the lease manager, or a process. ListStreams is asked whatever the choice: it says when a stream was created."""
    tags = {"tags": roles.allow(FIND_TAGS, "*")} if choice.tags else {}
    return {"streams": roles.allow(FIND_STREAMS, "*"), **tags}


def _arns(scope: Construct, choice: StreamChoice) -> Iterator[str]:
    for selector in choice.selectors:
        key = StreamKey.parse(selector.what)
        if selector.is_arn:
            yield selector.what
        elif key is not None:
            yield _arn(scope, key.stream, key.account)
        elif selector.tag is None:
            yield _arn(scope, selector.what)


def _arn(scope: Construct, name: str, account: str | None = None) -> str:
    return Stack.of(scope).format_arn(
        service="kinesis", resource="stream", resource_name=name, account=account
    )
