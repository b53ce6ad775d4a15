"""Turns construct properties into the library's Settings, and those into the functions' environment.

Settings, their defaults and limits are defined once, in `sublet.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aws_cdk import Duration, Token
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_lambda as lambda_
from sublet.errors import SettingsError
from sublet.settings import (
    DEFINITIONS,
    PREFIX,
    HandlerContract,
    OnlyFor,
    Settings,
    check_sets_aside,
    check_window_fits,
    unknown_setting,
)
from sublet_cdk.failure_destination import Destination
from sublet_cdk.fan_out import reading_settings

KNOWN_ONLY_AT_DEPLOYMENT = "known-only-at-deployment"
"""Stands for the name of a stream that the same stack creates, so that the other settings can be validated."""

APPLICATION_MAX = 64
"""Step Functions limits names to 80 characters, and ours is `<application>-express-workers` at most."""

STATED_OTHERWISE = (
    "application",
    "stream",
    "stream_arn",
    "handler",
    "invoke_identity_arn",
    "on_failure",
    "reading",
    "fan_out_consumer",
    "register_fan_out",
)
"""Settings that the construct takes as separate properties, or fills in itself."""


def setting_names() -> list[str]:
    """The settings that are properties under their own name, without those for a process only."""
    return [
        name
        for name, definition in DEFINITIONS.items()
        if name not in STATED_OTHERWISE and definition.only is not OnlyFor.PROCESS
    ]


def as_setting(name: str, value: object, names: Sequence[str] | None = None) -> object:
    """Converts a property's value to its setting's type: from that type itself, its text (`5m`), or CDK's Duration
    for a duration. `names`: the settings that are properties; by default a KinesisConsumer's."""
    names = setting_names() if names is None else names
    if name not in names:
        raise unknown_setting(name, value, names)
    definition = DEFINITIONS[name]
    if definition.kind is timedelta and isinstance(value, Duration):
        return timedelta(milliseconds=float(value.to_milliseconds(integral=False)))
    taken = definition.value_of(value)
    if taken is None and definition.default is None:
        return None
    if type(taken) is not definition.kind:
        raise SettingsError(name, value, f"{definition.in_python}, or its text")
    return taken


def settings_of(
    application: str,
    stream: kinesis.IStream | None,
    handler: str,
    properties: Mapping[str, object],
    worker_timeout: Duration,
    destination: Destination | None = None,
    fan_out: bool | str = False,
) -> Settings:
    """The validated settings of one consumer. Raises SettingsError before anything is deployed."""
    if len(application) > APPLICATION_MAX:
        raise SettingsError(
            "application",
            application,
            f"at most {APPLICATION_MAX} characters: it prefixes the state machine's name",
        )
    given: dict[str, Any] = {name: as_setting(name, value) for name, value in properties.items()}
    named = named_stream(stream)
    settings = Settings(
        application=application,
        **named,
        handler=handler,
        on_failure=destination.checked_arn if destination else None,
        **given,
        **reading_settings(fan_out, named.get("stream")),
    )
    check_sets_aside(settings)
    check_window_fits(settings, timedelta(seconds=float(worker_timeout.to_seconds())))
    return settings


def named_stream(stream: kinesis.IStream | None) -> dict[str, Any]:
    """The settings that name the stream, as far as they are known at synth. `stream` is None if there are several."""
    if stream is None:
        return {}
    unresolved = Token.is_unresolved(stream.stream_name)
    return {
        "stream": KNOWN_ONLY_AT_DEPLOYMENT if unresolved else stream.stream_name,
        "stream_arn": None if unresolved or Token.is_unresolved(stream.stream_arn) else stream.stream_arn,
    }


def environment_of(
    settings: Settings,
    stream: kinesis.IStream | None,
    destination: Destination | None = None,
    fan_out_consumer: str | None = None,
) -> dict[str, str]:
    """The SUBLET_ variables of both functions. The stream, the destination and the registered consumer may still be
    tokens that CloudFormation fills in."""
    fan_out = {f"{PREFIX}FAN_OUT_CONSUMER": fan_out_consumer} if fan_out_consumer else {}
    on_failure = {f"{PREFIX}ON_FAILURE": destination.arn} if destination else {}
    known_later = (
        {} if stream is None else {f"{PREFIX}STREAM": stream.stream_name, f"{PREFIX}STREAM_ARN": stream.stream_arn}
    )
    return settings.to_environment() | on_failure | fan_out | known_later


def tell_invoke_identity(worker: lambda_.Function, settings: Settings) -> None:
    """Adds the ARN of the worker's role to its environment, since Lambda's event contains the role that reads the
    stream. The role is created after the settings."""
    if settings.handler_contract is HandlerContract.LAMBDA_EVENT and worker.role is not None:
        worker.add_environment(f"{PREFIX}INVOKE_IDENTITY_ARN", worker.role.role_arn)
