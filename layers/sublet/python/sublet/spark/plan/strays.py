"""Decides which aggregates outside their shard's hash key range a batch's tasks drop. Pure.

The rule is the library's (`decisions.session.out_of_range_aggregates`). A batch keeps what was known of the stream when
it was planned, so that counting its rows, reading them, and reading them again give the same result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from sublet.decisions.session.out_of_range_aggregates import KeptBecause, why_kept
from sublet.protocol.aggregation import AggregateColumns, OutOfRange, WholeReason, aggregate_columns
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import StreamRecord
from sublet.protocol.stream_info import Placement


def is_sent_again(arrived: datetime | None, placement: Placement) -> bool:
    """True if an out-of-range aggregate was put into the wrong shard. `arrived` is None if not known."""
    return arrived is not None and why_kept(arrived, placement) is None


@dataclass(slots=True)
class StrayFilter:
    """The filter of one shard in one batch.

    inside         the shard's hash key range; None switches the filter off
    dropped, kept  user records that were out of range, and why the kept ones were kept
    """

    inside: KeysInside | None
    placement: Placement
    dropped: int = 0
    kept: Counter[KeptBecause] = field(default_factory=Counter)

    def expanded(self, record: StreamRecord) -> AggregateColumns | WholeReason | None:
        """The record's contents; None if it is dropped."""
        found = aggregate_columns(record.data, self.inside)
        if not isinstance(found, OutOfRange):
            return found
        why = why_kept(record.approximate_arrival_timestamp, self.placement)
        if why is None:
            self.dropped += found.user_records
            return None
        self.kept[why] += found.user_records
        all_of_it = aggregate_columns(record.data, None)
        assert not isinstance(all_of_it, OutOfRange), "without a range nothing is out of it"
        return all_of_it
