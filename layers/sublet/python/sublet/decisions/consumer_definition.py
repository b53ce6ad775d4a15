"""What all programs of one consumer must go by, kept beside its leases: so that one with other options is told.

A definition holds every option as text, by name, also those that nobody gave: a later version's defaults may be others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from sublet.decisions.pull_request import as_duration, is_whole
from sublet.errors import SettingsError, SettingsInConflict
from sublet.settings import Settings
from sublet.settings.text import parse_setting, setting_text
from sublet.settings.value import DEFINITIONS

ACK_WAIT = timedelta(minutes=5)
"""KCL has none."""

MAX_ACK_PENDING = 1_000
MAX_ACK_PENDING_MOST = 1_000_000_000
"""No bound at all; and a number that can be read where it was written."""

Options = Mapping[str, str]
"""By name, as text; empty for none."""

_OF_SETTINGS = (
    "start_position", "failover_time", "heartbeat_interval", "deaggregate", "hash_range_filter", "filter_criteria", "on_failure",
)  # fmt: skip

_KINDS: Mapping[str, Any] = MappingProxyType(
    {name: DEFINITIONS[name].kind for name in _OF_SETTINGS} | {"ack_wait": timedelta, "max_ack_pending": int}
)

FIXED = ("start_position",)
"""It says where a shard begins that has no lease; those that have one would not follow."""


class Terms(NamedTuple):
    """What a program that pulls goes by.

    ack_wait         a record of which nothing has been said for so long comes again
    max_ack_pending  so many records of a shard may be beyond the last that is done without a gap
    """

    settings: Settings
    ack_wait: timedelta = ACK_WAIT
    max_ack_pending: int = MAX_ACK_PENDING


def options_of(terms: Terms) -> Options:
    """All that a definition says."""
    given = {name: getattr(terms.settings, name) for name in _OF_SETTINGS}
    return _texts(given | {"ack_wait": terms.ack_wait, "max_ack_pending": terms.max_ack_pending})


def given_options(given: Mapping[str, Any]) -> Options:
    """What of it a program was given: the rest is for the definition to say."""
    return _texts({name: value for name, value in given.items() if name in _KINDS and value is not None})


def by_definition(terms: Terms, given: Options, defined: Options | None) -> Terms:
    """The terms with what the definition says. None: there is none, as in a table of KCL's; then they stand.

    Raises SettingsInConflict for an option that was given and is another there.
    """
    if defined is None:
        return terms
    for name, text in given.items():
        if defined.get(name, "") != text:
            raise SettingsInConflict(
                name, text, f"{defined.get(name) or 'none'}, as consumer {terms.settings.application} is defined; "
                "leave it out, or update the consumer",
            )  # fmt: skip
    values = {name: _value(name, text) for name, text in defined.items()}
    settings = replace(terms.settings, **{name: values[name] for name in _OF_SETTINGS if name in values})
    return Terms(
        settings,
        values.get("ack_wait", terms.ack_wait),
        values.get("max_ack_pending", terms.max_ack_pending),
    )


def updated(defined: Options | None, terms: Terms, given: Options) -> Options:
    """The definition with the given options, the others as they are there. Raises SettingsError for what stays as it is."""
    if defined is None:
        return options_of(terms)
    for name in FIXED:
        if name in given and given[name] != defined.get(name, ""):
            raise SettingsError(
                name, given[name], f"{defined.get(name)}, as the consumer was made: it cannot be updated"
            )
    wanted = {**defined, **given}
    by_definition(terms, {}, wanted)  # what contradicts itself is refused
    return wanted


def _texts(values: Mapping[str, Any]) -> Options:
    return {name: "" if value is None else setting_text(value) for name, value in values.items()}


def _value(name: str, text: str) -> Any:
    if name not in _KINDS:
        raise SettingsInConflict(
            name, text, "known here: the consumer was defined by a later version of sublet"
        )
    return parse_setting(name, _KINDS[name], text) if text else None


def checked_terms(
    settings: Settings, ack_wait: timedelta | float | None, max_ack_pending: int | None
) -> Terms:
    """With the defaults. Raises SettingsError."""
    wait = ACK_WAIT if ack_wait is None else as_duration("ack_wait", ack_wait)
    pending = MAX_ACK_PENDING if max_ack_pending is None else max_ack_pending
    if wait <= timedelta(0):
        raise SettingsError("ack_wait", str(wait), "longer than nothing")
    if not is_whole(pending) or not 1 <= pending <= MAX_ACK_PENDING_MOST:
        raise SettingsError("max_ack_pending", pending, f"a whole number from 1 to {MAX_ACK_PENDING_MOST:,}")
    return Terms(settings, wait, pending)
