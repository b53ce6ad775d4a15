"""An alarm as a value, and the four kinds of most alarms. Reading them needs no CDK.

Each kind treats missing data in a deliberate way. A metric that signals trouble is put with every tick and window, even
if it is zero, so missing data means that nothing runs, and other alarms watch for that. These are on sums, with missing
data filled with zero; otherwise CloudWatch would look at older periods first, and fire twice as late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sublet_cdk.alarm_pace import AlarmThresholds, Pace


class Source(StrEnum):
    """Who puts the metric: the application itself, or AWS for a deployed resource."""

    APPLICATION = "application"
    MANAGER = "lease manager"
    WORKER = "lease worker"
    STATE_MACHINE = "state machine"
    DEAD_LETTERS = "dead-letter queue"
    FAILURE_QUEUE = "failure destination"


class Missing(StrEnum):
    """The values of CloudWatch's TreatMissingData that we use."""

    NOT_BREACHING = "notBreaching"
    BREACHING = "breaching"


EACH_STREAM = "*"
"""Stands for every stream that has the metric, found by a query. No stream has this name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric with its statistic. `stream`: only of this one of several streams, or of EACH_STREAM; None: over all
    streams.
    """

    metric: str
    statistic: str
    source: Source = Source.APPLICATION
    stream: str | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """Fires if the value is beyond `threshold` in `points` of the last `periods`.

    figures      by their names in `expression`; with a single figure, the expression only fills in missing data
    minutes      length of a period
    below        fires at or below the threshold, instead of above it
    when, then   what has happened and what to do; `alarm_texts` makes the description of them
    log          whose log tells more
    at_destination  the failure destination is what to look at
    has_link     the description ends in a link to the dashboard
    """

    name: str
    figures: Mapping[str, Figure]
    minutes: int
    periods: int
    when: str
    then: str
    points: int
    threshold: float = 0
    below: bool = False
    missing: Missing = Missing.NOT_BREACHING
    expression: str | None = None
    log: Source = Source.WORKER
    at_destination: bool = False
    has_link: bool = False

    @property
    def stream(self) -> str | None:
        """The one of several streams that the alarm is on; None if it is on all of them, or on each by a query."""
        named = {figure.stream for figure in self.figures.values()} - {None, EACH_STREAM}
        return next(iter(named), None)

    @property
    def is_query(self) -> bool:
        """True if the alarm is on each stream that a query finds."""
        return any(figure.stream == EACH_STREAM for figure in self.figures.values())

    @property
    def needs_math(self) -> bool:
        """True if the alarm needs metric math. Without math, an alarm on silence watches only its first figure."""
        return self.is_query or (len(self.figures) > 1 and self.missing is not Missing.BREACHING)


def at_once(
    pace: Pace,
    name: str,
    figure: Figure,
    when: str,
    then: str,
    threshold: float = 0,
    *,
    log: Source = Source.WORKER,
    at_destination: bool = False,
) -> Alarm:
    """An alarm that fires at a single value, for a metric of which one value is proof. It stays on for a span, in which
    the next tick shows whether the trouble is over.
    """
    figures = {"figure": figure}
    return Alarm(
        name, figures, pace.span, 1, when, then, 1, threshold=threshold, log=log, at_destination=at_destination
    )


def reported_by_workers(
    pace: Pace,
    name: str,
    figure: Figure,
    when: str,
    then: str,
    threshold: float,
    *,
    log: Source = Source.WORKER,
) -> Alarm:
    """An alarm that fires at a single value of a worker's metric. It stays on for three spans, because the next worker
    starts a tick later and must measure for itself.
    """
    return Alarm(name, {"figure": figure}, pace.span, 3, when, then, points=1, threshold=threshold, log=log)


def lasting(
    pace: Pace,
    name: str,
    figure: Figure,
    when: str,
    then: str,
    *,
    threshold: float = 0,
    minutes: int = 0,
    log: Source = Source.WORKER,
) -> Alarm:
    """An alarm that fires if trouble lasts, for trouble that may happen once."""
    spans = pace.spans(minutes)
    return Alarm(name, {"figure": figure}, pace.span, spans, when, then, spans, threshold=threshold, log=log)


def silent(pace: Pace, at: AlarmThresholds, name: str, figures: Mapping[str, Figure], when: str, then: str) -> Alarm:
    """An alarm that fires if no figure has a value in a span, for metrics that must be there all the time."""
    spans = pace.spans(at.silence_minutes)
    return Alarm(
        name,
        figures,
        pace.span,
        spans,
        when,
        then,
        points=spans,
        below=True,
        missing=Missing.BREACHING,
        log=Source.MANAGER,
        expression=" + ".join(f"FILL({figure}, 0)" for figure in figures),
    )
