"""Finds out where a producer's records go: lists the stream's shards, and asks whether Kinesis places records
itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.decisions.putting.placing import RecordPlacing
from sublet.decisions.session.out_of_range_aggregates import ASK_LATEST
from sublet.errors import StreamAccessDenied, StreamError
from sublet.ports import Clock, Log, Stream
from sublet.protocol.shard_map import ShardMap
from sublet.protocol.stream_info import RecordDistribution

AUTO_PUTS_ALONE = (
    "records are not aggregated: the stream distributes records itself (RecordDistributionStrategy AUTO), where KCL "
    "drops aggregates"
)
NOT_LISTED = "records are put without aggregates and write limits, which need kinesis:ListShards: grant it to this role"

ASK_EARLIEST = timedelta(seconds=30)
"""How often to ask for the distribution, since DescribeStreamSummary is limited for the whole account."""

ASK_AUTO_EARLIEST = timedelta(seconds=2)
"""The same where Kinesis was last said to place records itself: no listing shows that it does not any more, and it then
refuses records without a partition key.
"""


class PlacingSource:
    """The placing of one stream. Asks for its distribution every five minutes at most, or every half minute while
    records land in other shards than predicted. Not safe for threads.
    """

    def __init__(self, stream: Stream, clock: Clock, log: Log) -> None:
        self._stream = stream
        self._clock = clock
        self._log = log
        self._distribution: RecordDistribution | None = None
        self._asked_at: datetime | None = None
        self._shards: ShardMap | None = None
        self._said: set[str] = set()

    def distribution(self) -> RecordDistribution | None:
        """The stream's record distribution; None if it is not known."""
        self._describe(ASK_LATEST)
        return self._distribution

    def look(self, *, is_doubted: bool = False) -> RecordPlacing:
        """List the shards. `is_doubted`: records were refused, or landed in other shards than predicted. Raises what
        Stream raises, but a missing permission only makes the answer less precise.
        """
        is_auto = self._distribution is RecordDistribution.AUTO
        earliest = ASK_AUTO_EARLIEST if is_auto else ASK_EARLIEST
        self._describe(earliest if is_doubted else ASK_LATEST)
        if self._distribution is RecordDistribution.AUTO:
            return self._auto()
        may_be_keyless = self._distribution is None
        try:
            shards = ShardMap.of(self._stream.list_shards())
        except StreamAccessDenied:
            self._say_once(NOT_LISTED)
            return RecordPlacing(None, may_be_keyless=may_be_keyless)
        before, self._shards = self._shards, shards
        if before is not None and not shards.is_same_stream_as(before):
            self._asked_at = None  # deleted and created again: nothing that is known of the former one holds
            return self.look(is_doubted=is_doubted)
        return RecordPlacing(shards, may_be_keyless=may_be_keyless)

    def _auto(self) -> RecordPlacing:
        self._say_once(AUTO_PUTS_ALONE)
        return RecordPlacing(None, is_auto=True)

    def is_due(self, placing: RecordPlacing) -> bool:
        """Whether to look again although no record has shown a change. On a stream with AUTO, no record could show
        one.
        """
        return placing.is_auto and self._is_older_than(ASK_LATEST)

    def _describe(self, at_most_every: timedelta) -> None:
        if not self._is_older_than(at_most_every):
            return
        self._asked_at = self._clock.steady()
        try:
            self._distribution = self._stream.describe().distribution
        except StreamError as problem:
            self._distribution = None
            self._log.warning("stream's record distribution unknown", problem=str(problem))

    def _is_older_than(self, age: timedelta) -> bool:
        return self._asked_at is None or self._clock.steady() - self._asked_at >= age

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._log.warning(message)
