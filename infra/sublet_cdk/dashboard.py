"""The dashboard: the alarms, and every metric that they use or that helps to find a cause, starting with the lag."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct
from sublet.metric_names import NAMESPACE, Metric
from sublet_cdk.alarms import MINUTE, Deployment, Watched

FLEET: Mapping[str, Mapping[Metric, str]] = {
    "Leases": {
        Metric.TOTAL_SHARDS: "Average",
        Metric.TOTAL_LEASES: "Average",
        Metric.UNCLAIMED_LEASES: "Average",
        Metric.WORKER_LEASES: "Sum",
        Metric.QUIET_LEASES: "Maximum",
        Metric.PAUSED_LEASES: "Maximum",
    },
    "Lag (ms): the least and the most lagging shard": {Metric.MILLIS_BEHIND_LATEST: "Minimum"},
    "Records a minute": {Metric.RECORDS: "Sum"},
    "Bytes a minute": {Metric.BYTES: "Sum"},
    "Stalled: the worst shard (ms)": {
        Metric.CHECKPOINT_AGE: "Maximum",
        Metric.UNREAD_AGE: "Maximum",
        Metric.OWNER_STALLED_AGE: "Maximum",
        Metric.HANDLER_CALL_AGE: "Maximum",
        Metric.OLDEST_UNFINISHED_AGE: "Maximum",
    },
    "Refused": {
        Metric.READS_REFUSED: "Sum",
        Metric.TICKS_REFUSED: "Sum",
        Metric.LEASES_FAILED: "Sum",
        Metric.THROTTLED_POLLS: "Maximum",
        Metric.FAN_OUT_POLLED_INSTEAD: "Sum",
        Metric.METRICS_EXPORTS_FAILED: "Sum",
    },
    "Trouble": {
        Metric.HANDLER_FAILURES: "Sum",
        Metric.HANDLER_ATTEMPTS: "Maximum",
        Metric.RECORDS_SET_ASIDE: "Sum",
        Metric.DESTINATION_REFUSALS: "Sum",
        Metric.LOST_LEASES: "Sum",
        Metric.LATE_CHECKPOINTS: "Sum",
        Metric.RECORDS_DROPPED_OUT_OF_RANGE: "Sum",
        Metric.AGGREGATES_DELIVERED_WHOLE: "Sum",
        Metric.DATA_GAP: "Sum",
        Metric.MALFORMED_ROWS: "Maximum",
        Metric.CRASHING_LEASES: "Maximum",
    },
}
"""Title -> metric -> statistic."""

PER_SHARD = {Metric.MILLIS_BEHIND_LATEST: "Maximum", Metric.BYTES: "Maximum", Metric.RECORDS: "Sum"}
"""With `metrics_by_shard=worst`, ticks put the first two for the worst shards. Bytes are those of a minute."""

PER_STREAM = {Metric.MILLIS_BEHIND_LATEST: "Maximum", Metric.STREAM_STALLED_AGE: "Maximum"}
"""With several streams."""

DISTRIBUTIONS = {
    "Lag of the shards (ms): distribution": Metric.MILLIS_BEHIND_LATEST,
    "Bytes a report: distribution": Metric.BYTES,
}
HOT_SHARDS = (
    "filter message = 'a shard is hot'",
    (
        "stats latest(@timestamp) as at, latest(share_of_quota) as quota, latest(times_the_average) as times, "
        "latest(command) as why by shard_id"
    ),
    "sort at desc",
)
"""A query of CloudWatch Logs Insights over the lines of `engine.manager.busy_shards`."""

PERCENTILES = ("p50", "p90", "Maximum")


def add_dashboard(scope: Construct, watched: Watched, alarms: Mapping[str, cloudwatch.Alarm]) -> cloudwatch.Dashboard:
    dashboard = cloudwatch.Dashboard(scope, "Dashboard", dashboard_name=watched.dashboard_name)
    dashboard.add_widgets(
        cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms.values()), width=24, height=3)
    )
    dashboard.add_widgets(*(_graph(title, _fleet_metrics(watched, metrics)) for title, metrics in FLEET.items()))
    dashboard.add_widgets(
        *(
            _graph(title, [watched.metric(metric, statistic) for statistic in PERCENTILES])
            for title, metric in DISTRIBUTIONS.items()
        )
    )
    dashboard.add_widgets(*(_graph(f"{metric} by shard", [_by_shard(watched, metric)]) for metric in PER_SHARD))
    if watched.streams:
        dashboard.add_widgets(*(_graph(f"{metric} by stream", [_by_stream(watched, metric)]) for metric in PER_STREAM))
    if watched.log is not None:
        dashboard.add_widgets(_hot_shards(watched.log))
    if watched.deployment is not None:
        dashboard.add_widgets(*_deployment_graphs(watched.deployment))
    return dashboard


def _hot_shards(log: logs.ILogGroup) -> cloudwatch.LogQueryWidget:
    """Lists hot shards from the lease manager's log, since a metric cannot show the command to run."""
    return cloudwatch.LogQueryWidget(
        title="Hot shards",
        log_group_names=[log.log_group_name],
        query_lines=list(HOT_SHARDS),
        view=cloudwatch.LogQueryVisualizationType.TABLE,
        width=24,
        height=4,
    )


def _deployment_graphs(deployment: Deployment) -> list[cloudwatch.GraphWidget]:
    manager, worker, machine = deployment.manager, deployment.worker, deployment.state_machine
    windows: list[cloudwatch.IMetric] = [
        worker.metric_invocations(),
        worker.metric_errors(),
        worker.metric_throttles(),
    ]
    return [
        _graph("Ticks", [manager.metric_invocations(), manager.metric_errors()]),
        _graph("Windows", windows),
        _graph("Executions", [machine.metric_started(), machine.metric_failed()]),
    ]


def _fleet_metrics(watched: Watched, metrics: Mapping[Metric, str]) -> list[cloudwatch.IMetric]:
    shown: list[cloudwatch.IMetric] = [watched.metric(metric, statistic) for metric, statistic in metrics.items()]
    if Metric.MILLIS_BEHIND_LATEST in metrics:
        shown.append(watched.metric(Metric.MILLIS_BEHIND_LATEST, "Maximum"))
    return shown


def _by_shard(watched: Watched, metric: Metric) -> cloudwatch.MathExpression:
    return _found(watched, metric, "shard_id", PER_SHARD[metric])


def _by_stream(watched: Watched, metric: Metric) -> cloudwatch.MathExpression:
    return _found(watched, metric, "stream", PER_STREAM[metric])


def _found(watched: Watched, metric: Metric, by: str, statistic: str) -> cloudwatch.MathExpression:
    """Returns a search expression, because each reshard changes the shards, and streams come and go."""
    search = f'{{{NAMESPACE},application,{by}}} MetricName="{metric}" application="{watched.application}"'
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{search}', '{statistic}', {int(MINUTE.to_seconds())})",
        using_metrics={},
        label="",
        period=MINUTE,
    )


def _graph(title: str, metrics: list[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=8, height=6)
