"""The application that a command acts on, and which of its streams.

`--stream` (or SUBLET_STREAM) is the application's stream, or one of several. Without it, a command acts on all streams
of an application that reads several: those of the setting `streams`, or those that it has leases of.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sublet.command_line.settings_options import missing, settings_of
from sublet.errors import SubletError
from sublet.settings import Settings
from sublet.settings.value import NO_STREAM, variable_of

if TYPE_CHECKING:
    from sublet.ports import Ports
    from sublet.protocol.stream_key import StreamKey


AS_HANDLED = ("filter_criteria", "deaggregate", "hash_range_filter")
"""The settings that say what the handler gets of a shard. A command gets them like any program of the application: the
table does not have them.
"""


class Operated(NamedTuple):
    """What a command acts on. `settings` has `streams` if the application reads several."""

    settings: Settings
    ports: Ports


def operated(
    options: Namespace,
    required: Collection[str],
    environment: Mapping[str, str] = os.environ,
    *,
    finds_streams: bool | None = None,
) -> Operated:
    """Returns what the command acts on. Raises SettingsError, StreamNotFound, and what the tables and Kinesis raise.

    required       see `settings_of`; an application of several streams needs no stream, even if one is required
    finds_streams  look for several streams in the lease table if no stream is named; by default only if one is required
    """
    from sublet.decisions.streams.chosen_streams import of_one_stream
    from sublet.operate.aws.ports import CommandPorts

    settings, named = settings_meant(options, required, environment)
    if settings.streams is not None and named is None:
        return Operated(settings, CommandPorts(settings))
    finds = "stream" in required if finds_streams is None else finds_streams
    several = _streams_of_leases(settings) if named is not None or finds else ()
    if several:
        return _of_streams(settings, several, named)
    if settings.streams is not None and named is not None:
        settings = of_one_stream(settings, named)
    if "stream" in required and settings.stream == NO_STREAM:
        raise missing("stream")
    return Operated(settings, CommandPorts(settings))


def settings_meant(
    options: Namespace, required: Collection[str], environment: Mapping[str, str]
) -> tuple[Settings, str | None]:
    """Returns the settings, and the stream that the operator named, which must be one of SUBLET_STREAMS if that is set.
    Raises SettingsError.
    """
    named = getattr(options, "stream", None)
    if named and variable_of("streams") in environment:
        options = Namespace(**{**vars(options), "stream": None})
    settings = settings_of(options, environment, [name for name in required if name != "stream"])
    is_stated = settings.streams is None and settings.stream != NO_STREAM
    return settings, settings.stream if is_stated else named


def _streams_of_leases(settings: Settings) -> tuple[StreamKey, ...]:
    """Returns nothing for an application of one stream, or if the table cannot be read, which the command itself
    reports.
    """
    from sublet.decisions.streams.operated_streams import streams_of
    from sublet.operate.cli.positions.snapshots import lease_table

    try:
        return streams_of(lease_table(settings.application, several=True if settings.streams else None).scan())
    except SubletError:
        return ()


def _of_streams(settings: Settings, several: Collection[StreamKey], named: str | None) -> Operated:
    from sublet.decisions.streams.operated_streams import choice_of, streams_meant
    from sublet.operate.aws.ports import CommandPorts
    from sublet.reading.several_streams import LeasesOfStreams
    from sublet.settings.stream_filters import criteria_of_streams

    meant = streams_meant(several, named, settings.application)
    criteria = settings.filter_criteria and criteria_of_streams(
        settings.filter_criteria, [(key.account, key.stream, key.epoch) for key in meant]
    )
    found = replace(settings, stream="", stream_arn=None, streams=choice_of(meant), filter_criteria=criteria)
    table = LeasesOfStreams(CommandPorts(found).table, frozenset(meant))
    return Operated(found, CommandPorts(found, table=table))


def operator() -> str:
    """Returns the name of the user who runs the command, for other operators to see."""
    from getpass import getuser
    from socket import gethostname

    try:
        user = getuser()
    except (OSError, KeyError):  # a container may not know the user's name
        user = "unknown"
    return f"{user}@{gethostname()}"
