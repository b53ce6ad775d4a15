"""Reading by fan-out: the application's registered consumer, what it costs, and the ARN that its workers subscribe with.

CloudFormation registers the consumer before it creates the workers, and deregisters it after it has deleted them. That matters
because Kinesis charges for a consumer until it is deregistered or its stream is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Annotations, Token
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct
from sublet.decisions.prices import AS_OF, REGION, fan_out
from sublet.errors import SettingsError
from sublet.settings import Reading, Settings
from sublet_cdk.places import is_elsewhere

NAME_MAX = 128
"""The longest name of a consumer (RegisterStreamConsumer). It is registered under the application's name, as in KCL."""


def reading_settings(stated: bool | str, stream_name: str) -> Mapping[str, Any]:
    """The settings that the construct's property `fan_out` stands for. A placeholder validates them if the ARN is known only at
    deployment.
    """
    if stated is False:
        return {}
    is_known = isinstance(stated, str) and not Token.is_unresolved(stated)
    unknown = f"arn:aws:kinesis:{REGION}:000000000000:stream/{stream_name}/consumer/unknown:0"
    return {"reading": Reading.FAN_OUT, "fan_out_consumer": stated if is_known else unknown}


def consumer_of(
    scope: Construct, settings: Settings, stream: kinesis.IStream | None, stated: bool | str
) -> str | None:
    """The ARN of the consumer: a new one's, or the stated one; None without fan-out."""
    if stated is False or stream is None:
        return None
    Annotations.of(scope).add_info(_price(stream))
    if isinstance(stated, str):
        return stated
    if is_elsewhere(scope, stream.stream_arn):
        raise SettingsError(
            "fan_out",
            True,
            "the ARN of a consumer: a stream of another account registers its consumers there",
        )
    if len(settings.application) > NAME_MAX:
        raise SettingsError(
            "application",
            settings.application,
            f"at most {NAME_MAX} characters with fan_out: it names the consumer",
        )
    registered = kinesis.CfnStreamConsumer(
        scope, "FanOut", consumer_name=settings.application, stream_arn=stream.stream_arn
    )
    return registered.attr_consumer_arn


def _price(stream: kinesis.IStream) -> str:
    made = stream.node.default_child
    shards = made.shard_count if isinstance(made, kinesis.CfnStream) else None
    known = shards if isinstance(shards, int | float) and not Token.is_unresolved(shards) else None
    count = f" for its {known:g} shards" if known and known > 1 else " for each shard"
    return (
        f"Fan-out costs ${fan_out(round(known or 1), 0):,.0f} a month{count}, even if no records come, and "
        f"${fan_out(0, 1e9):.3f} for each GB read: a provisioned stream in {REGION}, {AS_OF}. One on demand is charged by the GB."
    )
