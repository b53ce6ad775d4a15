"""The arguments of a Consumer's constructor: keywords, defaults and checks, shared by plain Python and asyncio."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sublet.errors import SettingsError
from sublet.handler import UserHandler
from sublet.handlers.load import handler_of
from sublet.ports import Ports, Signal, Tasks
from sublet.settings import DEFINITIONS, Checkpointing, OnlyFor, Settings, setting_values
from sublet.settings.keywords import ProcessKeywords

if TYPE_CHECKING:  # not loaded by `import sublet`
    from sublet.decisions.pull.pull_events import Event
    from sublet.ports.account import Account
    from sublet.pull.environment import Environment


class PulledKeywords(ProcessKeywords, total=False):
    """The keyword arguments of a consumer without a handler, for type checkers."""

    ack_wait: timedelta | float | None
    max_ack_pending: int | None
    on_event: Callable[[Event], object] | None
    until_signalled: bool


class ConsumerKeywords(PulledKeywords, total=False):
    """The keyword arguments of a consumer that may have a handler, for type checkers."""

    handler: UserHandler | None


class ConsumerArguments:
    """A consumer's arguments, checked. The constructor raises SettingsError and HandlerNotLoadable, and does not call
    AWS. `sublet.Consumer` says what each argument means.

    settings  the settings in this process: a forked child has another worker id
    stop      set when the consumer is to stop
    """

    def __init__(
        self,
        application: str,
        stream: str | None,
        handler: UserHandler | None,
        *,
        ports: Ports | None,
        account: Account | None,
        ack_wait: timedelta | float | None,
        max_ack_pending: int | None,
        on_event: Callable[[Event], object] | None,
        settings: Mapping[str, Any],
    ) -> None:
        from sublet.decisions.pull.consumer_definition import checked_terms
        from sublet.runtimes.process_settings import process_settings

        _check_kinds(ports, account, on_event)
        _check_runtime(settings)
        self._given = setting_values(settings)
        if handler is None:
            self.settings = _pull_settings(application, stream, self._given)
        else:
            self.settings = process_settings(application, stream, self._given)
            handler_of(handler, self.settings)  # raises what `run` would raise later
        checked_terms(self.settings, ack_wait, max_ack_pending)
        self._ports, self._account = ports, account
        self._ack_wait, self._max_ack_pending = ack_wait, max_ack_pending
        self._owner_pid = os.getpid()
        self.tasks = _tasks_of(ports or account)
        self.stop: Signal = self.tasks.signal()

    def environment(self, on_event: Callable[[Event], object] | None) -> Environment:
        from sublet.pull.environment import environment_of

        self.settings = self._settings_here()
        return environment_of(
            self.settings,
            self._given,
            self._ports,
            self._account,
            on_event,
            ack_wait=self._ack_wait,
            max_ack_pending=self._max_ack_pending,
            stopped=self.stop,
        )

    def _settings_here(self) -> Settings:
        """The settings, with a new worker id after a fork: parent and child are two workers."""
        from sublet.runtimes.process_settings import process_defaults

        if os.getpid() == self._owner_pid or "worker_id" in self._given:
            return self.settings
        worker_id = process_defaults(self.settings.application)["worker_id"]
        return replace(self.settings, worker_id=worker_id)


OF_THE_ACCOUNT = ("region", "region_name", "session", "boto3_session", "profile", "profile_name", "endpoint_url")
"""What boto3 and others take where `Consumer` takes an account."""


def _check_runtime(given: Mapping[str, Any]) -> None:
    """Raises SettingsError for what would be ignored here, or has another place."""
    for name, value in given.items():
        if name in OF_THE_ACCOUNT:
            raise SettingsError(name, value, "not a setting: give account=sublet.connect(region=..., session=...)")
        if name in DEFINITIONS and DEFINITIONS[name].only is OnlyFor.LAMBDA:
            raise SettingsError(name, value, f"only for {OnlyFor.LAMBDA.described}")


def _tasks_of(given: Ports | Account | None) -> Tasks:
    from sublet.system.threads import ThreadTasks

    return ThreadTasks() if given is None else given.tasks


def _check_kinds(ports: object, account: object, on_event: object) -> None:
    """Raises SettingsError for an argument of the wrong kind, which would otherwise fail at its first use."""
    if ports is not None and not isinstance(ports, Ports):
        raise SettingsError("ports", ports, "Ports: sublet.testing.memory.memory_ports(stream), or left out")
    if account is not None and not hasattr(account, "compose"):
        raise SettingsError("account", account, "an account: of a context, `context.account`; or left out")
    if on_event is not None and not callable(on_event):
        raise SettingsError("on_event", on_event, "a function that takes an event")


def _pull_settings(application: str, stream: str | None, given: Mapping[str, Any]) -> Settings:
    """The settings of a consumer without a handler. Raises SettingsError."""
    from sublet.runtimes.process_settings import named_stream, process_defaults

    if "handler" in given:
        raise SettingsError("handler", given["handler"], "not allowed with sublet.aio: sublet.Consumer runs handlers")
    for name, why in _OF_HANDLERS.items():
        if name in given and given[name] != _PULLED.get(name, DEFINITIONS[name].default):
            raise SettingsError(name, given[name], f"not allowed on a consumer that pulls records: {why}")
    defaults = process_defaults(application) | _PULLED
    return Settings(**{**defaults, **given, "application": application, **named_stream(stream, given)})


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
"""Settings for handlers, and why a consumer without a handler refuses each: it would be ignored, or contradict
`_PULLED`.
"""

_PULLED = {
    "checkpointing": Checkpointing.MANUAL,
    "handler_timeout": None,
    "handler_concurrency": 10_000,
    "window": timedelta(days=7),
    "batch_size": 2000,
    "poll_bytes": 2**19,
}
"""Settings of every consumer without a handler. Only acknowledgements say what is done. The engine's handler call waits
until the program wants records, so it has no timeout, and each lease may have one such call. Windows are long, because
at the end of one, records that are out come again. Batches are small, so that user records are created only as they are
wanted. Pages are half a megabyte, so that parsing one does not block an event loop in the same interpreter; Kinesis
allows four of them a second.
"""
