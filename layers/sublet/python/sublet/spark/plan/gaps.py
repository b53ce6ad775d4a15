"""Finds records that a query has not read and can no longer read. Pure. Every plan checks this, whatever triggered the
plan and whichever part of the source listed the shards.

A query that is away for longer than the retention can lose records in four ways, each of which leaves a trace:

* A shard of the offset is gone before it was read to its end: the service denies it (`shards_to_ask_about`).
* A shard came and went: the query never read it, and its listed child names it as a parent (`shards_to_ask_about`).
* Records after the last one read are gone: so is the last one read, at which a shard is opened (`may_be_trimmed`).
* Records of a shard from which nothing was read are gone: the offset has the time when nothing was unread
  (`may_be_trimmed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.protocol.shard import Shard
from sublet.spark.plan.offsets import Ended, ReadTo, ShardOffset, StreamOffset

CLOCKS_DIFFER_BY = timedelta(hours=1)
"""Added to a record's age, because tasks wait too."""

NEVER_TRIMMED = SHORTEST_RETENTION - CLOCKS_DIFFER_BY
"""A record younger than this is never past retention."""


def shards_to_ask_about(start: StreamOffset, listed: Mapping[str, Shard]) -> frozenset[str]:
    """Shards that a plan from `start` depends on but the listing leaves out: the service may know them all the same.

    These are shards of the offset, and parents, unknown to the offset, of shards that could begin now. An ended shard
    stays in the offset, without a question to the service, while a listed one waits for another parent: it shows that
    this parent was read.
    """
    waiting = [shard for shard in listed.values() if shard.shard_id not in start.shards] if start.shards else []
    remembered = frozenset[str]().union(*(shard.parent_shard_ids for shard in waiting))
    unlisted = {
        shard_id
        for shard_id, shard in start.shards.items()
        if shard_id not in listed and not (isinstance(shard.position, Ended) and shard_id in remembered)
    }
    return frozenset(unlisted).union(*(_strangers(shard, start, listed) for shard in waiting))


def never_read(beginning: Iterable[str], start: StreamOffset, listed: Mapping[str, Shard]) -> dict[str, frozenset[str]]:
    """The beginning shards whose parents came and went unread, with these parents."""
    return {
        shard_id: parents
        for shard_id in sorted(beginning)
        if start.shards and shard_id in listed and (parents := _strangers(listed[shard_id], start, listed))
    }


def _strangers(child: Shard, start: StreamOffset, listed: Mapping[str, Shard]) -> frozenset[str]:
    """The child's parents that are neither in the listing nor in the offset, if all its other parents have ended."""
    unknown = child.parent_shard_ids - listed.keys() - start.shards.keys()
    return unknown if all(has_ended(start, parent) for parent in child.parent_shard_ids - unknown) else frozenset()


def has_ended(offset: StreamOffset, shard_id: str) -> bool:
    return shard_id in offset.shards and isinstance(offset.shards[shard_id].position, Ended)


def unread_since(shard: ShardOffset) -> datetime | None:
    """A time before which no unread record of the shard arrived or, if the shard has ended, no unread record of its
    children. None if no such time is known."""
    arrived = shard.position.arrived if isinstance(shard.position, ReadTo) else None
    return max((moment for moment in (arrived, shard.caught_up_at) if moment is not None), default=None)


def may_be_trimmed(shard: ShardOffset, now: datetime) -> bool:
    """True if unread records of the shard may be past retention, so that we must look for evidence that they are not.

    If a shard is read from its beginning and no time is known, whatever it still has is enough.
    """
    known = unread_since(shard)
    if known is None:
        return isinstance(shard.position, ReadTo)
    return now - known >= NEVER_TRIMMED


def is_past(retention: timedelta, shard: ShardOffset, now: datetime) -> bool:
    """True if unread records of the shard may be older than that."""
    known = unread_since(shard)
    return known is not None and now - known >= retention - CLOCKS_DIFFER_BY


def parents_known(start: StreamOffset, child: Shard) -> datetime | None:
    """The latest time known from its parents: nothing of a beginning child arrived before its last parent was
    closed.
    """
    known = [unread_since(start.shards[p]) for p in child.parent_shard_ids & start.shards.keys()]
    return max((moment for moment in known if moment is not None), default=None)


def forgotten_parents(listed: Iterable[Shard], first: Mapping[str, ShardOffset]) -> dict[str, ShardOffset]:
    """Parents of shards that wait for another parent, if they were past retention when the query began. They are
    marked as ended, so that they are not taken for shards that came and went later."""
    shards = {shard.shard_id: shard for shard in listed}
    waiting = [shard for shard in shards.values() if shard.shard_id not in first]
    return {
        parent: ShardOffset(Ended())
        for shard in waiting
        for parent in shard.parent_shard_ids - shards.keys() - first.keys()
    }


def named(record: ReadTo) -> str:
    """Names the last record read, for a message."""
    return f"record {record.sequence_number}" + (f", arrived {record.arrived.isoformat()}," if record.arrived else "")
