"""The alarms that name one of several streams, in addition to those over all of them.

An alarm on the application sees its worst shard, or its best one, of all streams: it does not say which stream is in
trouble, and one stream at its tip hides another that falls behind. So each stream has three of its own.

* **Streams that are chosen by name have one alarm each** of a kind: its text names the stream and has the command for
  it, and it is on a single metric, which every CloudWatch and every emulator has.
* **Streams that come by a pattern or a tag are not known at synth**, and the alarms of more than NAMED_MAX would fill
  the stack. For these, each kind is one alarm on a Metrics Insights query with `GROUP BY stream`. Each stream that the
  query returns is a contributor with a state of its own, and the notification about it names the stream ("Acting on
  alarm changes" in CloudWatch's User Guide). A search expression would find the streams too, but no alarm may be on
  one.

Both cost the same: CloudWatch charges $0.10 a month for each metric that an alarm watches, and for each that a query
matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sublet.metric_names import Metric
from sublet.settings import StreamChoice
from sublet_cdk.alarm_kinds import EACH_STREAM, Alarm, Figure, at_once, lasting
from sublet_cdk.alarm_pace import MINUTE, AlarmThresholds, Pace

NAMED_MAX = 20
"""Beyond that, a query: three alarms for each of 20 streams are 60 of the 100 that a widget of the dashboard shows, and
of the 500 resources that a stack may have."""

QUERIED_MAX = timedelta(hours=3)
"""CloudWatch evaluates an alarm on a query over the last three hours at most (its User Guide, "Limits")."""


def named_streams(choice: StreamChoice | None) -> Sequence[str]:
    """The streams with alarms of their own, which are EACH_STREAM if a query finds them. Empty with one stream."""
    if choice is None:
        return ()
    names = [each.exact_name for each in choice.selectors]
    known = list(dict.fromkeys(name for name in names if name is not None))
    return known if None not in names and len(known) <= NAMED_MAX else (EACH_STREAM,)


def stream_alarms(pace: Pace, at: AlarmThresholds, application: str, streams: Sequence[str]) -> Sequence[Alarm]:
    """Of all of `streams` (`named_streams`), without those on a query that would look back too far."""
    alarms = [alarm for stream in streams for alarm in _of(pace, at, application, stream)]
    return [alarm for alarm in alarms if not alarm.is_query or _looks_back(alarm) <= QUERIED_MAX]


def too_rare(pace: Pace, at: AlarmThresholds) -> Sequence[str]:
    """The names of the alarms on a query that `stream_alarms` leaves out."""
    return [alarm.name for alarm in _of(pace, at, "", EACH_STREAM) if _looks_back(alarm) > QUERIED_MAX]


def _of(pace: Pace, at: AlarmThresholds, application: str, stream: str) -> Sequence[Alarm]:
    is_query = stream == EACH_STREAM
    which = "one of the application's streams" if is_query else f"the stream {stream}"
    status = f"`sublet status --application {application} --stream {'STREAM' if is_query else stream}`"
    named = "The notification names it, and so does `aws cloudwatch describe-alarm-contributors`. " if is_query else ""
    kinds = (
        at_once(
            pace,
            "StreamStalled",
            Figure(Metric.STREAM_STALLED_AGE, "Maximum", stream=stream),
            f"records wait in a shard of {which}, and nothing is read, or its owner makes no progress",
            f"{named}Other streams may be fine. {status} shows the shard, its owner and why; the alarms on the "
            "application that are on say what to do.",
            pace.owner_stall_millis(at.owner_stall_minutes),
        ),
        lasting(
            pace,
            "StreamLagging",
            Figure(Metric.MILLIS_BEHIND_LATEST, "Minimum", stream=stream),
            f"{which} is behind: even its least lagging shard is not at its tip",
            f"{named}Other streams may be at theirs. It is normal for a while after a start from TRIM_HORIZON or a "
            f"reshard. {status} shows lag and trend by shard; `sublet hot` says whether a shard is too busy.",
            threshold=at.lag_millis,
            minutes=at.lag_minutes,
        ),
        at_once(
            pace,
            "StreamAtRisk",
            Figure(Metric.MILLIS_BEHIND_LATEST, "Maximum", stream=stream),
            f"data loss ahead: a shard of {which} is more than {at.stream_lag_hours:g} hours behind",
            f"{named}Kinesis deletes its records when the stream's retention ends, after 24 hours unless it is longer. "
            f"{status} shows the shard. If it cannot catch up in time, lengthen the retention first: `aws kinesis "
            f"increase-stream-retention-period --stream-name {'STREAM' if is_query else stream} "
            "--retention-period-hours 168`.",
            timedelta(hours=at.stream_lag_hours) / timedelta(milliseconds=1),
        ),
    )
    return [_in_stream(alarm, stream) for alarm in kinds]


def _in_stream(alarm: Alarm, stream: str) -> Alarm:
    if stream == EACH_STREAM:
        return replace(alarm, has_link=True)
    return replace(alarm, name=f"{alarm.name}-{stream}", has_link=True)


def _looks_back(alarm: Alarm) -> timedelta:
    return alarm.periods * alarm.minutes * MINUTE
