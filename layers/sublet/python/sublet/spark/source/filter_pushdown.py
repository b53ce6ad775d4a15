"""Narrows a read by Spark's filters. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from sublet.spark.source.batch_read_plan import ReadScope

_MICROSECOND = timedelta(microseconds=1)


def narrow(wanted: ReadScope, filter_: Filter) -> ReadScope | None:
    """The read narrowed by the filter; None if the filter is of no use to us."""
    match filter_:
        case EqualTo(("shardId" | "stream" as column,), str(value)):
            return _only(wanted, column, frozenset({value}))
        case In(("shardId" | "stream" as column,), values):
            return _only(wanted, column, frozenset(values))
        case GreaterThan(("approximateArrivalTimestamp",), datetime() as at) | GreaterThanOrEqual(
            ("approximateArrivalTimestamp",), datetime() as at
        ):
            moments = (m for m in (wanted.since, _aware(at)) if m is not None)
            return replace(wanted, since=max(moments))
        case LessThan(("approximateArrivalTimestamp",), datetime() as at) | LessThanOrEqual(
            ("approximateArrivalTimestamp",), datetime() as at
        ):
            moments = (m for m in (wanted.until, _aware(at) + _MICROSECOND) if m is not None)
            return replace(wanted, until=min(moments))
    return None


def _only(wanted: ReadScope, column: str, values: frozenset[str]) -> ReadScope:
    if column == "shardId":
        return replace(wanted, shard_ids=values if wanted.shard_ids is None else wanted.shard_ids & values)
    return replace(wanted, streams=values if wanted.streams is None else wanted.streams & values)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.astimezone(UTC)
