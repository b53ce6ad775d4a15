"""What a long-lived process is set to, unless it is told otherwise: for `Consumer` and `sublet run`."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sublet.errors import SettingsError
from sublet.ports import Ports
from sublet.protocol.stream_identity import stream_settings
from sublet.settings import Checkpointing, Mode, Settings


def process_defaults(application: str, start: str | None = None) -> dict[str, Any]:
    """Continuous, since it is there anyway; and a worker of its own, named for its machine or container, and for this start:
    two processes on one machine are two workers. One with a stable `worker_id` resumes its leases when it starts again. Nothing
    ends a process at the end of its window, so a handler call has a time of its own.
    """
    worker_id = f"{application}-{socket.gethostname()}-{start or secrets.token_hex(4)}"
    return {"mode": Mode.CONTINUOUS, "worker_id": worker_id, "handler_timeout": timedelta(minutes=15)}


def check_given(ports: object, account: object, on_event: object) -> None:
    """Raises SettingsError for what is none, before the first use of it does in its own words."""
    if ports is not None and not isinstance(ports, Ports):
        raise SettingsError("ports", ports, "Ports: sublet.memory.memory_ports(stream), or left out")
    if account is not None and not hasattr(account, "compose"):
        raise SettingsError("account", account, "an account: of a context, `context.account`; or left out")
    if on_event is not None and not callable(on_event):
        raise SettingsError("on_event", on_event, "a function that takes an event")


def of_this_process(settings: Settings, given: Mapping[str, Any], made_in: int) -> Settings:
    """Of a consumer that was `made_in` a process from which this one may have been forked: two children are two workers."""
    if os.getpid() == made_in or "worker_id" in given:
        return settings
    return replace(settings, worker_id=process_defaults(settings.application)["worker_id"])


def pull_settings(application: str, stream: str, given: Mapping[str, Any]) -> Settings:
    """Of a consumer that is pulled from. Raises SettingsError."""
    if "handler" in given:
        raise SettingsError(
            "handler", given["handler"], "left out to pull records; sublet.Consumer has one called"
        )
    defaults = process_defaults(application) | _PULLED
    return Settings(**{**defaults, **given, "application": application, **stream_settings(stream)})


_PULLED = {
    "checkpointing": Checkpointing.MANUAL,
    "handler_timeout": None,
    "handler_concurrency": 10_000,
    "window": timedelta(days=7),
    "batch_size": 2000,
    "poll_bytes": 2**19,
}
"""Acknowledgements alone say what is done; a handler call waits for as long as nobody wants records, in a slot for each lease;
and no window's end gives back what is out. User records are made as they are wanted, and no more of them, and pages are of half a
megabyte, four a second of which are all that Kinesis gives: an event loop that shares its interpreter is not held for long."""
