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
from sublet.settings import DEFINITIONS, Checkpointing, Mode, Settings


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
    for name, why in _OF_HANDLERS.items():
        if name in given and given[name] != _PULLED.get(name, DEFINITIONS[name].default):
            raise SettingsError(name, given[name], f"left out to pull records: {why}")
    defaults = process_defaults(application) | _PULLED
    return Settings(**{**defaults, **given, "application": application, **stream_settings(stream)})


_OF_HANDLERS = {
    "handler_contract": "there is no handler",
    "checkpointing": "what is done is what `record.ack()` says",
    "handler_timeout": "there is no handler; `ack_wait` says how long a record may be out",
    "handler_concurrency": "there is no handler; `consume(callback, partition_by_key=8)` calls side by side",
    "handler_attempts": "there is no handler; `record.attempt` says how often a record has come",
    "parallelization_factor": "there is no handler; `consume(callback, partition_by_key=8)` calls side by side",
    "maximum_retry_attempts": "nothing is given up by itself; `record.attempt` and `record.term(reason)` do it",
    "maximum_record_age": "nothing is given up by itself; `record.term(reason)` does it",
    "bisect_batch_on_function_error": "records are handed out one by one",
    "report_batch_item_failures": "there is no handler",
}
"""What they say of a handler would be ignored, or contradict what a consumer that is pulled from is set to."""

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
