"""What the roles of an application of several streams may do: on the streams by ARN, or by tag, and to find them.

IAM's wildcards are those of the setting's name patterns. A stream that is created later under such a name, or with such
a tag, needs no deployment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct
from sublet.protocol.stream_key import StreamKey
from sublet.settings import StreamChoice, StreamSelector
from sublet_cdk import roles
from sublet_cdk.nag import acknowledge_wildcard

FIND_STREAMS, FIND_TAGS = ["kinesis:ListStreams"], ["tag:GetResources"]
"""These have no resources: IAM allows them on all, or not at all."""


def on_streams(scope: Construct, choice: StreamChoice, actions: Sequence[str]) -> Mapping[str, iam.PolicyStatement]:
    """Returns statements by duty: on the named streams, and on all those that have a tag."""
    arns = list(dict.fromkeys(_arns(scope, choice)))
    duties = {"stream": roles.allow(actions, *arns)} if arns else {}
    for number, (key, value) in enumerate(choice.tags):
        statement = roles.allow(actions, _arn(scope, "*"))
        statement.add_conditions({"StringEquals": {f"aws:ResourceTag/{key}": value}})
        duties[f"stream-by-tag-{number}"] = statement
    return duties


def finding_streams(choice: StreamChoice) -> Mapping[str, iam.PolicyStatement]:
    """Allows the lease manager, or a process, to find the streams. ListStreams is asked whatever the choice: it says
    when a stream was created.
    """
    tags = {"tags": roles.allow(FIND_TAGS, "*")} if choice.tags else {}
    return {"streams": roles.allow(FIND_STREAMS, "*"), **tags}


def consumer_arns(scope: Construct, choice: StreamChoice, name: str) -> Sequence[str]:
    """The streams' fan-out consumers of this name. A consumer has tags of its own, so those of its stream are not asked
    for.
    """
    arns = [*_arns(scope, choice), *([_arn(scope, "*")] if choice.tags else [])]
    return [f"{arn}/consumer/{name}:*" for arn in dict.fromkeys(arns)]


def named_arn(scope: Construct, selector: StreamSelector) -> str | None:
    """With the wildcards of a name pattern; None for a tag."""
    key = StreamKey.parse(selector.what)
    if selector.is_arn:
        return selector.what
    if key is not None:
        return _arn(scope, key.stream, key.account)
    return _arn(scope, selector.what) if selector.tag is None else None


def _arns(scope: Construct, choice: StreamChoice) -> Iterator[str]:
    for selector in choice.selectors:
        arn = named_arn(scope, selector)
        if arn is not None:
            yield arn


def _arn(scope: Construct, name: str, account: str | None = None) -> str:
    return Stack.of(scope).format_arn(service="kinesis", resource="stream", resource_name=name, account=account)


def of_a_pipeline(
    scope: Construct, stream: kinesis.IStream | None, streams: StreamChoice | None
) -> Mapping[str, iam.PolicyStatement]:
    """What its runs may do on the one stream, or on several."""
    actions = roles.PIPELINE_ON_STREAM
    if streams is not None:
        return {**on_streams(scope, streams, actions), **finding_streams(streams)}
    return {} if stream is None else {"stream": roles.allow(actions, stream.stream_arn)}


def acknowledge_patterns(role: Construct, duties: Mapping[str, iam.PolicyStatement]) -> None:
    """For cdk-nag: the wildcards in streams' ARNs are those of the setting's patterns and tags."""
    for duty in duties.values():
        for arn in duty.resources:
            if "*" in arn and arn != "*":
                acknowledge_wildcard(role, arn, "Streams are chosen by a name pattern or a tag")
