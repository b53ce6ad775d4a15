"""Alert rules for Prometheus, over what `/metrics` of a process and `sublet exporter` show.

Like the alarms for CloudWatch: what is stalled, what is refused, what is lost; each rule says what to do. The names
are those of `metric_names`, and labels say which application, stream and shard it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import NamedTuple

from sublet.metric_names import OF_EXPORTER, THROTTLED_POLLS_MAX, Attribute, Metric

BY_SHARD = f"{Attribute.APPLICATION}, {Attribute.STREAM}, {Attribute.SHARD}"
BY_APPLICATION = Attribute.APPLICATION.value
RUNBOOK = "docs/on-call.md#when-something-stalls"


PAGE, TICKET = "critical", "warning"


class AlertRule(NamedTuple):
    """`lasts`: how long `expr` must hold before the alert fires, as Prometheus writes it. `description`: what to do."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    description: str


def prometheus_name(metric: Metric) -> str:
    assert metric.elsewhere is not None
    return metric.elsewhere.prometheus


def _own(name: str) -> str:
    return OF_EXPORTER[name].instrument.prometheus


def _worst(metric: Metric) -> str:
    return f"max by ({BY_SHARD}) ({prometheus_name(metric)})"


def _more(*metrics: Metric, over: str) -> str:
    """Whether one of the counters has grown. One that has just appeared has no earlier value to grow from."""
    found = []
    for metric in metrics:
        name = prometheus_name(metric)
        found += [f"increase({name}[{over}]) > 0", f"({name} unless {name} offset {over}) > 0"]
    return f"sum by ({BY_APPLICATION}) ({' or '.join(found)})"


def alert_rules() -> Sequence[AlertRule]:
    shard = "{{ $labels.application }}: shard {{ $labels.shard_id }} of {{ $labels.stream }}"
    application = "{{ $labels.application }}"
    stalled = (Metric.CHECKPOINT_AGE, Metric.UNREAD_AGE, Metric.OWNER_STALLED_AGE, Metric.HANDLER_CALL_AGE)
    return (
        AlertRule(
            "SubletShardStalled",
            " or ".join(f"{_worst(metric)} > 900" for metric in stalled),
            "1m",
            PAGE,
            f"{shard} does not move although records wait",
            "For 15 minutes its position has not moved, or one handler call has lasted that long. `sublet status` says "
            "why, and `sublet doctor` what to do.",
        ),
        AlertRule(
            "SubletShardLags",
            f"{_worst(Metric.MILLIS_BEHIND_LATEST)} > 600",
            "15m",
            TICKET,
            f"{shard} lags by {{{{ $value | humanizeDuration }}}}",
            "It has lagged by more than ten minutes for a quarter of an hour. `sublet status` shows whether it falls "
            "back or catches up; more workers help until each shard has one.",
        ),
        AlertRule(
            "SubletRecordsAreAboutToBeLost",
            f"{_own('retention_left')} < 21600",
            "1m",
            PAGE,
            f"{application}: its oldest record is trimmed in {{{{ $value | humanizeDuration }}}}",
            "Raise the stream's retention (`sublet streams change`) before anything else; then see why it lags.",
        ),
        AlertRule(
            "SubletRecordsAreLost",
            f"{_more(Metric.DATA_GAP, over='15m')} or max by ({BY_SHARD}) ({_own('lost')}) > 0",
            "0s",
            PAGE,
            f"{application}: records were trimmed before they were handled",
            "A position was older than the stream's retention. The log line `data gap` names the shard and the span.",
        ),
        AlertRule(
            "SubletFewerLeasesThanShards",
            f"max by ({BY_APPLICATION}) ({prometheus_name(Metric.TOTAL_LEASES)}) < "
            f"max by ({BY_APPLICATION}) ({prometheus_name(Metric.TOTAL_SHARDS)})",
            "10m",
            PAGE,
            f"{application}: a shard has no lease, so nobody will read it",
            "See `sublet doctor`.",
        ),
        AlertRule(
            "SubletHandlerFails",
            f"{_worst(Metric.HANDLER_ATTEMPTS)} >= 3",
            "5m",
            TICKET,
            f"{shard}: its handler has failed {{{{ $value }}}} times with the same records",
            "`sublet peek` shows the records, and the log the error. Fix the handler, or `sublet skip` them.",
        ),
        AlertRule(
            "SubletRefused",
            _more(
                Metric.LEASES_FAILED,
                Metric.READS_REFUSED,
                Metric.TICKS_REFUSED,
                Metric.DESTINATION_REFUSALS,
                over="10m",
            ),
            "5m",
            TICKET,
            f"{application}: AWS refuses what it needs",
            "A permission, a key, a table or a destination: the log and `sublet doctor` name it.",
        ),
        AlertRule(
            "SubletReadsAreThrottled",
            f"{_worst(Metric.THROTTLED_POLLS)} > {THROTTLED_POLLS_MAX}",
            "5m",
            TICKET,
            f"{shard}: its reads are throttled",
            "Its read limit is used up by all of its consumers together. Read by fan-out, or reshard.",
        ),
        AlertRule(
            "SubletLeasesCannotBeRead",
            " or ".join(
                f"max by ({BY_APPLICATION}) ({prometheus_name(metric)}) > 0"
                for metric in (Metric.MALFORMED_ROWS, Metric.CRASHING_LEASES)
            ),
            "5m",
            TICKET,
            f"{application}: rows are malformed, or leases crash their owners",
            "`sublet status` names them.",
        ),
        AlertRule(
            "SubletRecordsSetAside",
            _more(Metric.RECORDS_SET_ASIDE, over="15m"),
            "0s",
            TICKET,
            f"{application}: records were set aside",
            "Fix the cause, then `sublet redrive`.",
        ),
        AlertRule(
            "SubletExporterIsBlind",
            f"{_own('up')} == 0 or {_own('unknown')} > 0",
            "10m",
            TICKET,
            f"{application}: sublet exporter cannot look at it, or not into all of its shards",
            "Its standard error, or `sublet status --probe`, says why.",
        ),
    )


def rules_text() -> str:
    """A rule file for Prometheus. Its strings are JSON's, which YAML takes as they are."""
    lines = ["# Made by `sublet exporter --rules`.", "groups:", "  - name: sublet", "    rules:"]
    for rule in alert_rules():
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {dumps(rule.expr)}",
            f"        for: {rule.lasts}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {dumps(rule.summary)}",
            f"          description: {dumps(rule.description)}",
            f"          runbook: {dumps(RUNBOOK)}",
        ]
    return "\n".join(lines) + "\n"
