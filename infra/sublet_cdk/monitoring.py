"""`ConsumerMonitoring`: the alarms and the dashboard of one application, wherever it runs.

    ConsumerMonitoring(self, "Monitoring", application="orders-audit", alarm_topic=topic)

KinesisConsumer contains one. Use it alone for a process or a container, whose metrics have the same names.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Annotations, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct, IDependable
from sublet.errors import SettingsError
from sublet.metric_names import Metric
from sublet.settings import MetricsExport, StreamChoice
from sublet_cdk import dashboard_names
from sublet_cdk.alarm_kinds import EACH_STREAM, Missing
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.alarm_texts import Subject
from sublet_cdk.alarms import MINUTE, Deployment, Watched, add_alarms, alarms_of, pace_of
from sublet_cdk.dashboard import add_dashboard
from sublet_cdk.dashboard_names import Runtime
from sublet_cdk.failure_destination import FailureDestination, destination_of
from sublet_cdk.monitoring_level import (
    Level,
    MonitoringLevel,
    check_has,
    check_unheard,
    check_unseen,
    level_of,
)
from sublet_cdk.monitoring_query import query_link
from sublet_cdk.promql_constructs import add_promql_alarms
from sublet_cdk.property_help import with_property_help
from sublet_cdk.set_aside_alarm import set_aside_queue
from sublet_cdk.stream_alarms import named_streams, too_rare


@with_property_help()
class ConsumerMonitoring(Construct):
    """The alarms and the dashboard of one application.

    application           the consumer group
    alarm_topic           gets a message when an alarm fires and when it is over
    alarm_thresholds      when the alarms fire
    deployment            the functions, state machine and queue of an application on Lambda, which have alarms too
    on_failure            the queue in which records are set aside, or its ARN: there is an alarm before it deletes
                          them. A topic or a bucket has none
    log_group             the lease manager's, or the process': the dashboard lists the hot shards that it names, and
                          the alarms name it
    stream                the stream's name, if the application reads one: the alarms name it
    streams               the application's setting `streams`, if it reads several: alarms that name a stream
                          (`stream_alarms`)
    monitoring            "lean": alarms on AWS' own metrics and on five of ours, which a process puts with
                          `metrics_level=lean`, and a link to a query; "full": every alarm, and a dashboard; "none":
                          only the metrics. By default what the context "sublet:monitoring" of the app says, and
                          otherwise "full", so that a stack that exists keeps what it has
    metrics_export        "otlp": the application has `metrics_export=otlp`, so there is an alarm on requests that fail,
                          and alarms on PromQL queries that name the shard (`promql_alarms` by name)
    collector             with "otlp": a collector gets these metrics, and not CloudWatch, which has no such alarms then
    dashboard_name        by default `<application>-sublet`. CloudWatch allows one of a name in an account, so the
                          application's next construct of an app, in another region or runtime, adds these two; state a
                          name if another app deploys it
    runtime               where the application runs, which the dashboard's name says if a construct of the same app has
                          taken the plain one

    `alarms` is by name, as in `monitoring.alarms["Lagging"]`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        application: str,
        alarm_topic: sns.ITopic | None = None,
        alarm_thresholds: AlarmThresholds | None = None,
        deployment: Deployment | None = None,
        on_failure: FailureDestination | None = None,
        log_group: logs.ILogGroup | None = None,
        stream: str | None = None,
        streams: StreamChoice | str | None = None,
        monitoring: Level = None,
        metrics_export: MetricsExport | str = MetricsExport.EMF,
        collector: bool = False,
        dashboard_name: str | None = None,
        runtime: Runtime = Runtime.PROCESS,
    ) -> None:
        super().__init__(scope, construct_id)
        self.level = level_of(self, monitoring)
        check_unheard(self.level, alarm_topic=alarm_topic, alarm_thresholds=alarm_thresholds)
        check_unseen(self.level, dashboard_name)
        is_full = self.level is MonitoringLevel.FULL
        choice = StreamChoice.parse(streams) if isinstance(streams, str) else streams
        destination = destination_of(on_failure)
        queue = set_aside_queue(self, destination)
        subject = Subject(application, stream, choice is not None, destination.arn if destination else None)
        named = dashboard_names.dashboard_name(self, application, runtime, dashboard_name) if is_full else ""
        by_stream = named_streams(choice) if is_full else ()
        is_lean = self.level is MonitoringLevel.LEAN
        exports = _parsed(metrics_export) is MetricsExport.OTLP
        self._watched = Watched(
            subject, deployment, queue, log_group, by_stream, named, is_lean=is_lean, exports=exports
        )
        thresholds = alarm_thresholds or AlarmThresholds()
        self._silence = [
            alarm for alarm in alarms_of(self._watched, thresholds, math=True) if alarm.missing is Missing.BREACHING
        ]
        self.alarms: Mapping[str, cloudwatch.Alarm] = {}
        self.promql_alarms: Mapping[str, Construct] = {}
        self._dashboard: cloudwatch.Dashboard | None = None
        if self.level is not MonitoringLevel.NONE:
            self._say_what_is_left_out(thresholds)
            within = Construct(self, "Alarms")
            self.alarms = add_alarms(within, self._watched, thresholds, alarm_topic)
            if exports and not collector:
                self.promql_alarms = add_promql_alarms(within, self._watched, thresholds, alarm_topic)
        if is_full:
            self._dashboard = add_dashboard(self, self._watched, self.alarms)

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """Raises SettingsError if there is none."""
        if self._dashboard is None:
            raise SettingsError("monitoring", self.level, f"{MonitoringLevel.FULL}, for a dashboard")
        return self._dashboard

    def names(self) -> dict[str, str]:
        """The dashboard's name, or the address of the query that is there instead, as in the outputs."""
        if self._dashboard is not None:
            return {"DashboardName": self._dashboard.dashboard_name}
        return {} if self.query_url is None else {"QueryUrl": self.query_url}

    @property
    def query_url(self) -> str | None:
        """With monitoring=lean: CloudWatch Logs Insights, with a query of all metrics over the logs. None if no log
        group is known.
        """
        groups = self._watched.log_groups
        return query_link(self, groups) if self.level is MonitoringLevel.LEAN and groups else None

    def _say_what_is_left_out(self, thresholds: AlarmThresholds) -> None:
        rare = too_rare(pace_of(self._watched.deployment, thresholds), thresholds)
        if rare and thresholds.by_stream and EACH_STREAM in self._watched.streams:
            Annotations.of(self).add_warning_v2(
                "sublet:stream-alarms",
                f"no alarm {' and '.join(rare)}: CloudWatch evaluates an alarm over streams that it has to find on "
                "three hours at most, and ticks are too far apart for that. Name the streams one by one, or let ticks "
                "come more often.",
            )

    def begin_after(self, deployed: IDependable) -> None:
        """Create the alarms for missing data only after `deployed`, which brings the first data."""
        for alarm in self._silence:
            if alarm.name in self.alarms:
                self.alarms[alarm.name].node.add_dependency(deployed)

    def first_figures(self) -> list[dict[str, object]]:
        """The metrics of the alarms for missing data, as CloudWatch's GetMetricData names them."""
        metrics = [self._watched.figure(figure, MINUTE) for alarm in self._silence for figure in alarm.figures.values()]
        return [
            {
                "Namespace": metric.namespace,
                "MetricName": metric.metric_name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in (metric.dimensions or {}).items()],
            }
            for metric in metrics
        ]

    def metric(
        self, metric: Metric, statistic: str, period: Duration = MINUTE, shard_id: str | None = None
    ) -> cloudwatch.Metric:
        """Returns any metric of `sublet.metric_names`, over all shards and workers, or of one shard. Raises
        SettingsError for one that CloudWatch does not have on this level.
        """
        if shard_id is None:
            check_has(self.level, metric)
        return self._watched.metric(metric, statistic, period, shard_id)

    def metric_lag(self, statistic: str = "Maximum", period: Duration = MINUTE) -> cloudwatch.Metric:
        """Milliseconds behind the tip; by default of the shard that lags most."""
        return self.metric(Metric.MILLIS_BEHIND_LATEST, statistic, period)

    def metric_records(self, period: Duration = MINUTE) -> cloudwatch.Metric:
        """User records that the handler has finished."""
        return self.metric(Metric.RECORDS, "Sum", period)

    def metric_bytes(self, period: Duration = MINUTE) -> cloudwatch.Metric:
        """Bytes of the stream records whose user records the handler has finished."""
        return self.metric(Metric.BYTES, "Sum", period)

    def metric_handler_failures(self, period: Duration = MINUTE) -> cloudwatch.Metric:
        """Calls of the handler that raised."""
        return self.metric(Metric.HANDLER_FAILURES, "Sum", period)

    def metric_unclaimed_leases(self, period: Duration = MINUTE) -> cloudwatch.Metric:
        """Leases without an owner, for which no worker is starting."""
        return self.metric(Metric.UNCLAIMED_LEASES, "Maximum", period)

    def metric_worker_leases(self, period: Duration = MINUTE) -> cloudwatch.Metric:
        return self.metric(Metric.WORKER_LEASES, "Sum", period)


def _parsed(metrics_export: MetricsExport | str) -> MetricsExport:
    try:
        return MetricsExport(metrics_export)
    except ValueError:
        raise SettingsError("metrics_export", metrics_export, f"one of {', '.join(MetricsExport)}") from None
