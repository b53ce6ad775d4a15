"""The settings of a consumer in containers: those of `sublet run`, with what its orchestrator requires."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_cdk import aws_kinesis as kinesis
from sublet.errors import SettingsError
from sublet.runtimes.process_settings import process_defaults
from sublet.settings import DEFINITIONS, OnlyFor, Settings, check_sets_aside
from sublet_cdk.consumer_settings import (
    STATED_OTHERWISE,
    as_setting,
    named_stream,
)
from sublet_cdk.failure_destination import Destination
from sublet_cdk.fan_out import reading_settings

HEALTH = "127.0.0.1:8080"
"""The health server's address, inside the task. Only the container's own health check reaches it."""

STOP_TIMEOUT = timedelta(seconds=120)
"""The time from SIGTERM to SIGKILL: Fargate's maximum, and the notice of a Spot interruption."""
DRAIN_TIMEOUT_MAX = STOP_TIMEOUT - timedelta(seconds=10)

OF_THE_CONSTRUCT = {*STATED_OTHERWISE, "health"}
OF_EACH_START = {"worker_id"}
"""Settings that each task chooses for itself, because tasks of the same definition are different workers."""


def service_setting_names() -> list[str]:
    """The settings that are properties under their own name."""
    left_out = OF_THE_CONSTRUCT | OF_EACH_START
    return [
        name
        for name, definition in DEFINITIONS.items()
        if name not in left_out and definition.only is not OnlyFor.LAMBDA
    ]


def service_settings_of(
    application: str,
    stream: kinesis.IStream | None,
    handler: str,
    properties: Mapping[str, object],
    destination: Destination | None = None,
    fan_out: bool | str = False,
) -> Settings:
    """Returns the settings, validated as at the start of the process. Raises SettingsError before anything is
    deployed.
    """
    names = service_setting_names()
    given: dict[str, Any] = {name: as_setting(name, value, names) for name, value in properties.items()}
    named = named_stream(stream)
    defaults = {name: value for name, value in process_defaults(application).items() if name not in OF_EACH_START}
    settings = Settings(
        **{
            **defaults,
            **given,
            "application": application,
            **named,
            "handler": handler,
            "health": HEALTH,
            **reading_settings(fan_out, named.get("stream")),
            "on_failure": destination.checked_arn if destination else None,
        }
    )
    check_sets_aside(settings)
    if settings.drain_timeout > DRAIN_TIMEOUT_MAX:
        raise SettingsError(
            "drain_timeout",
            f"{settings.drain_timeout.total_seconds():g}s",
            f"at most {DRAIN_TIMEOUT_MAX.total_seconds():g}s: Fargate kills {STOP_TIMEOUT.total_seconds():g} s after "
            "SIGTERM",
        )
    return settings
