"""The options that all programs of one consumer must share, stored beside its leases, so that a conflicting program is
refused.

A definition holds every option as text, by name, including defaults, because a later version may have other defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from sublet.decisions.pull.pull_request import as_duration, is_whole
from sublet.errors import SettingsError, SettingsInConflict
from sublet.settings import Settings
from sublet.settings.text import parse_setting, setting_text
from sublet.settings.value import DEFINITIONS

ACK_WAIT = timedelta(minutes=5)
"""KCL has no equivalent."""

MAX_ACK_PENDING = 1_000
MAX_ACK_PENDING_MOST = 1_000_000_000
"""Practically no limit, but still readable in an error message."""

Options = Mapping[str, str]
"""Options by name, as text; the empty text stands for None."""

_OF_SETTINGS = (
    "start_position",
    "failover_time",
    "heartbeat_interval",
    "deaggregate",
    "hash_range_filter",
    "filter_criteria",
    "on_failure",
)

_KINDS: Mapping[str, Any] = MappingProxyType(
    {name: DEFINITIONS[name].kind for name in _OF_SETTINGS} | {"ack_wait": timedelta, "max_ack_pending": int}
)

FIXED = ("start_position",)
"""A new start position would apply only to shards without a lease."""


class PullSettings(NamedTuple):
    """The settings of a pulling program.

    settings         the settings of the process
    ack_wait         a record that is neither acked nor nak'd for this long is redelivered
    max_ack_pending  how many records of a shard may be beyond the finished prefix
    """

    settings: Settings
    ack_wait: timedelta = ACK_WAIT
    max_ack_pending: int = MAX_ACK_PENDING


def options_of(terms: PullSettings) -> Options:
    given = {name: getattr(terms.settings, name) for name in _OF_SETTINGS}
    return _texts(given | {"ack_wait": terms.ack_wait, "max_ack_pending": terms.max_ack_pending})


def given_options(given: Mapping[str, Any]) -> Options:
    """The options among a program's arguments. The definition decides the rest."""
    return _texts({name: value for name, value in given.items() if name in _KINDS and value is not None})


def by_definition(terms: PullSettings, given: Options, defined: Options | None) -> PullSettings:
    """The terms with the definition's options. None: there is no definition, as in a KCL table, and the terms stay as
    they are. Raises SettingsInConflict if an option was given and the definition has another value.
    """
    if defined is None:
        return terms
    for name, text in given.items():
        if defined.get(name, "") != text:
            raise SettingsInConflict(
                name,
                text,
                f"{defined.get(name) or 'none'}, as consumer {terms.settings.application} is defined; "
                "leave it out, or update the consumer",
            )
    values = {name: _value(name, text) for name, text in defined.items()}
    settings = replace(terms.settings, **{name: values[name] for name in _OF_SETTINGS if name in values})
    return PullSettings(
        settings,
        values.get("ack_wait", terms.ack_wait),
        values.get("max_ack_pending", terms.max_ack_pending),
    )


def updated(defined: Options | None, terms: PullSettings, given: Options) -> Options:
    """The definition with the given options changed. Raises SettingsError for an option that cannot be updated."""
    if defined is None:
        return options_of(terms)
    for name in FIXED:
        if name in given and given[name] != defined.get(name, ""):
            raise SettingsError(
                name,
                given[name],
                f"{defined.get(name)}, as when the consumer was created: it cannot be updated",
            )
    wanted = {**defined, **given}
    by_definition(terms, {}, wanted)  # refuses contradictory options
    return wanted


def _texts(values: Mapping[str, Any]) -> Options:
    return {name: "" if value is None else setting_text(value) for name, value in values.items()}


def _value(name: str, text: str) -> Any:
    if name not in _KINDS:
        raise SettingsInConflict(
            name, text, "unknown here: a later version of sublet defined the consumer; update sublet"
        )
    return parse_setting(name, _KINDS[name], text) if text else None


def checked_terms(settings: Settings, ack_wait: timedelta | float | None, max_ack_pending: int | None) -> PullSettings:
    """The terms with defaults filled in. Raises SettingsError."""
    wait = ACK_WAIT if ack_wait is None else as_duration("ack_wait", ack_wait)
    pending = MAX_ACK_PENDING if max_ack_pending is None else max_ack_pending
    if wait <= timedelta(0):
        raise SettingsError("ack_wait", str(wait), "more than 0 seconds")
    if not is_whole(pending) or not 1 <= pending <= MAX_ACK_PENDING_MOST:
        raise SettingsError("max_ack_pending", pending, f"a whole number from 1 to {MAX_ACK_PENDING_MOST:,}")
    return PullSettings(settings, wait, pending)
