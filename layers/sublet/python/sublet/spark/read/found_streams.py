"""Checks that a query can read the streams that were found for its option `stream`."""

from __future__ import annotations

from collections import Counter

from sublet.decisions.streams.chosen_streams import FoundStreams
from sublet.errors import SettingsError, StreamNotFound
from sublet.ports import Streams
from sublet.spark.options import Options
from sublet.spark.read.connection import connect_once, streams_of


def check_names(found: FoundStreams, options: Options) -> None:
    """Raises SettingsError for streams of several accounts that have the same name: rows have the name alone."""
    for name, times in Counter(each.stream.stream for each in found.streams).items():
        if times > 1:
            raise SettingsError(
                "stream",
                options.stream,
                f"streams of different names: there are {times} streams {name}, and the column stream has the name "
                "alone",
            )


def check_all_found(found: FoundStreams, options: Options) -> None:
    """Raises StreamNotFound for a stream that is named and is not there."""
    check_names(found, options)
    if found.missing:
        raise StreamNotFound(
            f"there is no stream {', '.join(found.missing)}, which the option stream names; check its name and the "
            "region, or take it out of the option"
        )


def existing_streams(options: Options) -> Streams | None:
    """Returns `streams_of` the options. Raises StreamNotFound for a stream that is named and is not there."""
    streams = streams_of(options)
    if streams is None:
        connect_once(options).describe()
    else:
        check_all_found(streams.find(), options)
    return streams
