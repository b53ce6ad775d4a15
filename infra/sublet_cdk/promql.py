"""PromQL alarms: those of `monitoring=lean` on our own metrics, where each shard is a contributor that has a state of
its own and is named. Reading them needs no CDK.

CloudWatch evaluates an instant query on a schedule; every series that it returns is breaching ("PromQL alarms" in its
User Guide). A query without series is silence, so an alarm on missing data stays a classic one. Each query is made from
the classic alarm's definition and from the definitions of the metrics that count in it (`metric_names.LEAN`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sublet.metric_names import LEAN, Attribute, CountedAs, Instrument, Kind, Metric
from sublet_cdk.alarm_definitions import lean_alarms
from sublet_cdk.alarm_kinds import Alarm, Figure, Missing, Source
from sublet_cdk.alarm_pace import MINUTE, AlarmThresholds, Pace

EVALUATED_EACH = MINUTE
"""How often the query is made. CloudWatch takes ten seconds to an hour."""

PERIOD_MAX = timedelta(days=1)
"""CloudWatch's limit of a pending and of a recovery period."""

BY_SHARD = (Attribute.APPLICATION, Attribute.STREAM, Attribute.SHARD)
BY_STREAM = (Attribute.APPLICATION, Attribute.STREAM)


@dataclass(frozen=True, slots=True)
class PromQLAlarm:
    """An alarm on a query. A series that it returns fires after `pending`, and is over when it is gone for `recovery`.

    `of`: the classic alarm that it is made from, whose text it has.
    """

    name: str
    query: str
    pending: timedelta
    recovery: timedelta
    of: Alarm


def promql_alarms(pace: Pace, at: AlarmThresholds, application: str, *, on_lambda: bool) -> Sequence[PromQLAlarm]:
    """Those of an application whose metrics CloudWatch has by OTLP."""
    return [
        _made(alarm, figure, application)
        for alarm in lean_alarms(pace, at, on_lambda=on_lambda)
        for figure in alarm.figures.values()
        if figure.source is Source.APPLICATION and alarm.missing is not Missing.BREACHING
    ]


def _made(alarm: Alarm, figure: Figure, application: str) -> PromQLAlarm:
    """What lasts for some periods is pending for all of them but the first, and a minute longer, since a single event
    is seen for a whole period.
    """
    span = alarm.minutes * MINUTE
    pending = (alarm.points - 1) * span + MINUTE if alarm.points > 1 else timedelta(0)
    recovery = (alarm.periods - alarm.points) * span
    parts = _parts(alarm, figure, f"{alarm.minutes}m", application)
    return PromQLAlarm(
        f"{alarm.name}ByShard" if figure.statistic != "Minimum" else f"{alarm.name}ByStream",
        " or ".join(parts),
        min(pending, PERIOD_MAX),
        min(recovery, PERIOD_MAX),
        alarm,
    )


def _parts(alarm: Alarm, figure: Figure, span: str, application: str) -> Iterator[str]:
    """A query for each metric that counts in the alarm's figure."""
    for metric, counted in LEAN.items():
        if counted.metric == figure.metric and (at := metric.elsewhere) is not None:
            selected = f"{_selector(at, application)}[{span}]"
            if figure.statistic == "Minimum":
                value = f"min by ({_labels(BY_STREAM)}) (min_over_time({selected}))"
            elif at.kind is Kind.COUNTER:
                value = f"sum by ({_labels(BY_SHARD)}) (sum_over_time({selected}))"
            else:
                value = f"max by ({_labels(BY_SHARD)}) (max_over_time({selected}))"
            yield f"{value} > {at.value(_threshold(alarm, metric, counted), metric.unit):g}"


def _threshold(alarm: Alarm, metric: Metric, counted: CountedAs) -> float:
    """A metric that counts as another has its own threshold: the least of its values that count, or what they must be
    over.
    """
    return alarm.threshold if counted.metric is metric else max(alarm.threshold, counted.over or 0, counted.least)


def _selector(at: Instrument, application: str) -> str:
    """By the names in UTF-8 of Prometheus 3, as CloudWatch has them."""
    return f'{{"{at.name}","{Attribute.APPLICATION.otlp}"="{application}"}}'


def _labels(attributes: Sequence[Attribute]) -> str:
    return ",".join(f'"{each.otlp}"' for each in attributes)
