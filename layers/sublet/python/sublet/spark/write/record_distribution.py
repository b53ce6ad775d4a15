"""Who places the records that a sink puts: the keys of its rows, or Kinesis itself. Looked up only if it matters."""

from __future__ import annotations

from datetime import datetime
from functools import cache

from sublet.decisions.out_of_range import ASK_LATEST
from sublet.errors import RecordRefused, StreamError
from sublet.protocol.stream_info import RecordDistribution
from sublet.spark.read.connection import StreamAccess

AUTO_PUTS_ALONE = (
    "the option aggregate has no effect: the stream distributes records itself (RecordDistributionStrategy AUTO), where KCL "
    "drops aggregates"
)


class Distribution:
    """For one stream and process; looked up at most every five minutes."""

    def __init__(self, connection: StreamAccess) -> None:
        self._connection = connection
        self._known: RecordDistribution | None = None
        self._asked_at: datetime | None = None
        self._is_told = False

    def check_keyless(self) -> None:
        """Raises RecordRefused if the stream accepts no record without a partition key. If that is not known,
        Kinesis decides."""
        if self._now() is RecordDistribution.USER_PARTITION_KEY:
            raise RecordRefused(
                "partitionKey is null or missing: the stream accepts a record without one only if it distributes "
                "records itself (an on-demand stream's RecordDistributionStrategy AUTO)"
            )

    def may_aggregate(self) -> bool:
        """True also if the distribution is not known: then the option decides."""
        if self._now() is not RecordDistribution.AUTO:
            return True
        if not self._is_told:
            self._connection.log.warning(AUTO_PUTS_ALONE)
        self._is_told = True
        return False

    def _now(self) -> RecordDistribution | None:
        now = self._connection.clock.steady()
        if self._asked_at is None or now - self._asked_at >= ASK_LATEST:
            self._asked_at = now
            try:
                self._known = self._connection.stream.describe().distribution
            except StreamError as problem:
                self._known = None
                self._connection.log.warning(
                    "it is not known who places the stream's records", problem=str(problem)
                )
        return self._known


@cache
def distribution_of(connection: StreamAccess) -> Distribution:
    """One per connection, which a worker process keeps from task to task."""
    return Distribution(connection)
