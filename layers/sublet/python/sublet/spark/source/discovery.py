"""Keeps track of which streams a query reads."""

from __future__ import annotations

from collections.abc import Mapping

from sublet.decisions.streams.chosen_streams import FoundStreams
from sublet.errors import StreamError, TransientError
from sublet.protocol.stream_key import StreamKey
from sublet.settings import StartPosition
from sublet.spark.options import Options
from sublet.spark.read.connection import StreamsAccess
from sublet.spark.read.found_streams import check_names
from sublet.spark.read.patient import RepeatedCalls

Starts = Mapping[StreamKey | None, StartPosition | None]
"""Each stream's own start position, if it has one. None: the only stream."""


class StreamDiscovery:
    """Looks for streams at the start and every `streamDiscoveryInterval`. Leaves out a stream that is gone at once. The
    stream of a query of one is known, and not looked for.
    """

    def __init__(self, access: StreamsAccess, options: Options) -> None:
        self.starts: Starts = {} if access.streams is not None else {None: options.start_position}
        self._access = access
        self._options = options
        self._patience = RepeatedCalls(access.clock, access.sleep, options.patience)
        self._has_looked = False
        self._look_at = access.clock.steady()
        self._missing: tuple[str, ...] = ()

    def look(self) -> Starts:
        """Returns the streams with their start positions. Waits only for the first look; if a later one fails, the
        streams stay as they are. Raises what Streams raises, and SettingsError for streams of the same name.
        """
        clock, streams = self._access.clock, self._access.streams
        if streams is None or (self._has_looked and clock.steady() < self._look_at):
            return self.starts
        try:
            found = streams.find() if self._has_looked else self._patience.asked(streams.find)
        except TransientError as problem:
            if not self._has_looked:
                raise
            self._access.log.warning("could not search for streams", problem=str(problem))
        else:
            check_names(found, self._options)
            self._tell(found)
            self.starts = {each.stream: each.start for each in found.streams}
        self._has_looked = True
        self._look_at = clock.steady() + self._options.stream_discovery_interval
        return self.starts

    def is_gone(self, stream: StreamKey | None, problem: StreamError) -> None:
        """Leaves the stream out until the next look: Kinesis does not describe it any more, though there may be another
        stream of its name; or it is being created or deleted.
        """
        if stream in self.starts:
            self._access.log.warning(
                "a stream is not there: left out until the next look", stream=str(stream), problem=str(problem)
            )
            self.starts = {key: start for key, start in self.starts.items() if key != stream}

    def _tell(self, found: FoundStreams) -> None:
        log, streams = self._access.log, [each.stream for each in found.streams]
        for stream in sorted(set(streams).difference(self.starts)):
            log.info("stream found", stream=str(stream))
        if found.missing and found.missing != self._missing:
            log.warning("the option stream names streams that do not exist", streams=list(found.missing))
        elif not streams:
            log.warning("the option stream names no existing stream", stream=self._options.stream)
        self._missing = found.missing
