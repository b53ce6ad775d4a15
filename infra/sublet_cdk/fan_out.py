"""Registers the application's fan-out consumer on each stream, and says what it costs. With one stream, the workers get
its ARN; with several, they find each stream's consumer by its name.

CloudFormation registers the consumer before it creates the workers, and deregisters it after it has deleted them. That
matters because Kinesis charges for a consumer until it is deregistered or its stream is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Annotations, Token
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct
from sublet.errors import SettingsError
from sublet.operate.rules.prices import AS_OF, REGION, fan_out
from sublet.settings import Reading, Settings, StreamSelector
from sublet.settings.combinations import CONSUMER_NAME_MAX
from sublet_cdk.places import is_elsewhere
from sublet_cdk.several_streams import named_arn

REGISTERED = "FanOut"
"""The id of the consumer in its construct, or of the group of several streams' consumers."""


def reading_settings(stated: bool | str, stream_name: str | None) -> Mapping[str, Any]:
    """The settings that the construct's property `fan_out` stands for. A placeholder validates them if the ARN is known
    only at deployment. `stream_name`: None with several streams.
    """
    if stated is False:
        return {}
    if stream_name is None:
        named = {"fan_out_consumer": stated} if isinstance(stated, str) else {}
        return {"reading": Reading.FAN_OUT, **named}
    is_known = isinstance(stated, str) and not Token.is_unresolved(stated)
    unknown = f"arn:aws:kinesis:{REGION}:000000000000:stream/{stream_name}/consumer/unknown:0"
    return {"reading": Reading.FAN_OUT, "fan_out_consumer": stated if is_known else unknown}


def consumer_of(scope: Construct, settings: Settings, stream: kinesis.IStream | None, stated: bool | str) -> str | None:
    """Returns the ARN of a new fan-out consumer, or the stated ARN. None without fan-out, and with several streams."""
    if stated is False:
        return None
    if stream is None:
        _register_each(scope, settings, stated)
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
    if len(settings.application) > CONSUMER_NAME_MAX:
        raise SettingsError(
            "application",
            settings.application,
            f"at most {CONSUMER_NAME_MAX} characters with fan_out: it names the consumer",
        )
    registered = kinesis.CfnStreamConsumer(
        scope, REGISTERED, consumer_name=settings.application, stream_arn=stream.stream_arn
    )
    return registered.attr_consumer_arn


def register_before(worker: Construct, scope: Construct) -> None:
    """Makes CloudFormation create the worker after the consumers that `scope` registers, and delete it before them."""
    registered = scope.node.try_find_child(REGISTERED)
    if registered is not None:
        worker.node.add_dependency(registered)


def _register_each(scope: Construct, settings: Settings, stated: bool | str) -> None:
    """Registers a consumer on each stream, unless `stated` names existing ones."""
    choice = settings.streams
    assert choice is not None, "the settings require one stream or several"
    if isinstance(stated, str):
        Annotations.of(scope).add_info(_price_of_each("each shard of each stream"))
        return
    arns = {selector.exact_name: _registrable(scope, selector) for selector in choice.selectors}
    group = Construct(scope, REGISTERED)
    for name, arn in arns.items():
        kinesis.CfnStreamConsumer(group, str(name), consumer_name=settings.fan_out_name, stream_arn=arn)
    count = len(arns)
    streams = "the stream" if count == 1 else f"{count} streams"
    least = fan_out(count, 0)
    Annotations.of(scope).add_info(_price_of_each(f"each shard of {streams}, ${least:,.0f} at least"))


def _registrable(scope: Construct, selector: StreamSelector) -> str:
    """Returns the stream's ARN. Raises SettingsError if the stack cannot register a consumer on the stream."""
    arn = named_arn(scope, selector) if selector.is_exact else None
    if arn is None:
        raise SettingsError(
            "fan_out",
            True,
            f"the name of registered consumers with {selector}: streams that are found while running have no consumer "
            "of the stack; or name each stream, or use `sublet run --register`",
        )
    if is_elsewhere(scope, arn):
        raise SettingsError(
            "fan_out",
            True,
            f"the name of registered consumers with {selector}: a stream of another account registers its consumers "
            "there",
        )
    return arn


def _price(stream: kinesis.IStream) -> str:
    made = stream.node.default_child
    shards = made.shard_count if isinstance(made, kinesis.CfnStream) else None
    known = shards if isinstance(shards, int | float) and not Token.is_unresolved(shards) else None
    count = f"its {known:g} shards" if known and known > 1 else "each shard"
    return _price_of_each(count, round(known or 1))


def _price_of_each(what: str, shards: int = 1) -> str:
    return (
        f"Fan-out costs ${fan_out(shards, 0):,.0f} a month for {what}, even if no records come, and "
        f"${fan_out(0, 1e9):.3f} for each GB read: a provisioned stream in {REGION}, {AS_OF}. One on demand is "
        "charged by the GB."
    )
