"""Settings of a consumer in a long-lived process: for `Consumer` and `sublet run`."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sublet.errors import SettingsError
from sublet.protocol.stream_identity import stream_settings
from sublet.settings import Mode, Settings, check_sets_aside


def process_defaults(application: str, start: str | None = None) -> dict[str, Any]:
    """Defaults that differ in a process. `continuous` is on, since the process runs anyway. The worker id names the
    machine or container and this start, so that two processes on one machine are two workers; a process with a fixed
    `worker_id` resumes its leases when it starts again. A handler call has its own timeout, since no window's end stops
    it.
    """
    worker_id = f"{application}-{socket.gethostname()}-{start or secrets.token_hex(4)}"
    return {"mode": Mode.CONTINUOUS, "worker_id": worker_id, "handler_timeout": timedelta(minutes=15)}


def named_stream(stream: str | None, given: Mapping[str, Any]) -> Mapping[str, str]:
    """The settings that select a stream by its name or ARN. `stream` is None if `streams` is given instead. Raises
    SettingsError.
    """
    if stream is None and given.get("streams") is not None:
        return {}
    if stream is None:
        raise SettingsError("stream", None, "a stream's name, or its ARN; or streams, for several")
    return stream_settings(stream)


def process_settings(application: str, stream: str | None, given: Mapping[str, Any]) -> Settings:
    """The settings of a process with a handler. `stream`: a name or an ARN. Raises SettingsError."""
    settings = Settings(
        **{
            **process_defaults(application),
            **given,
            "application": application,
            **named_stream(stream, given),
        }
    )
    check_sets_aside(settings)
    return settings
