"""The dashboard: the alarms, and every metric that they or a person looking for a cause would want, from the
tip backwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct
from sublet_cdk.alarms import MINUTE, NAMESPACE, Watched

FLEET = {
    "Leases": {
        "total_shards": "Average",
        "total_leases": "Average",
        "unclaimed_leases": "Average",
        "worker_leases": "Sum",
    },
    "Lag (ms): the least and the most lagging shard": {"millis_behind_latest": "Minimum"},
    "Records a minute": {"records": "Sum"},
    "Bytes a minute": {"bytes": "Sum"},
    "Trouble": {
        "handler_failures": "Sum",
        "lost_leases": "Sum",
        "late_checkpoints": "Sum",
        "records_dropped_out_of_range": "Sum",
        "aggregates_delivered_whole": "Sum",
        "data_gap": "Sum",
        "malformed_rows": "Maximum",
    },
}
"""Title -> metric -> statistic. The names are the library's (sublet's metrics table in the README)."""

PER_SHARD = {"millis_behind_latest": "Maximum", "bytes": "Sum", "records": "Sum"}


def add_dashboard(
    scope: Construct, watched: Watched, alarms: Mapping[str, cloudwatch.Alarm]
) -> cloudwatch.Dashboard:
    dashboard = cloudwatch.Dashboard(
        scope, "Dashboard", dashboard_name=f"{watched.application.replace('.', '_')}-sublet"
    )
    dashboard.add_widgets(
        cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms.values()), width=24, height=3)
    )
    dashboard.add_widgets(
        *(_graph(title, _fleet_metrics(watched, metrics)) for title, metrics in FLEET.items())
    )
    dashboard.add_widgets(*(_graph(f"{name} by shard", [_by_shard(watched, name)]) for name in PER_SHARD))
    dashboard.add_widgets(
        _graph("Ticks", [watched.manager.metric_invocations(), watched.manager.metric_errors()]),
        _graph(
            "Windows",
            [
                watched.worker.metric_invocations(),
                watched.worker.metric_errors(),
                watched.worker.metric_throttles(),
            ],
        ),
        _graph("Executions", [watched.state_machine.metric_started(), watched.state_machine.metric_failed()]),
    )
    return dashboard


def _fleet_metrics(watched: Watched, metrics: Mapping[str, str]) -> list[cloudwatch.IMetric]:
    shown: list[cloudwatch.IMetric] = [watched.metric(name, statistic) for name, statistic in metrics.items()]
    if "millis_behind_latest" in metrics:
        shown.append(watched.metric("millis_behind_latest", "Maximum"))
    return shown


def _by_shard(watched: Watched, name: str) -> cloudwatch.MathExpression:
    """A search, since shards come and go with every reshard."""
    search = f'{{{NAMESPACE},application,shard_id}} MetricName="{name}" application="{watched.application}"'
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{search}', '{PER_SHARD[name]}', {int(MINUTE.to_seconds())})",
        using_metrics={},
        label="",
        period=MINUTE,
    )


def _graph(title: str, metrics: list[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=8, height=6)
