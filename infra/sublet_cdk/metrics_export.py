"""What `metrics_export=otlp` needs of a deployment: where its metrics go, and the permission for it."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Token
from aws_cdk import aws_iam as iam
from sublet.aws.clients import MACHINE
from sublet.aws.otlp.endpoint import endpoint_of
from sublet.metric_names import NAMESPACE
from sublet.protocol.otlp import has_collector
from sublet.settings import MetricsExport, Settings

METRICS = "metrics"
"""The policy that allows to send them."""

OF_COLLECTOR = "OTEL_EXPORTER_OTLP_"
"""What OpenTelemetry's variables of an exporter begin with. The lease manager sends where the worker does."""


def collector_variables(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that name a collector."""
    if settings.metrics_export is MetricsExport.EMF:
        return {}
    return {name: value for name, value in environment.items() if name.startswith(OF_COLLECTOR)}


def goes_to_cloudwatch(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether CloudWatch has the metrics by OTLP too. Raises SettingsError for a collector's variable that a process
    would not start with.
    """
    stated = collector_variables(settings, environment)
    if not any(Token.is_unresolved(value) for value in stated.values()):
        endpoint_of(stated, MACHINE)
    return settings.metrics_export is MetricsExport.OTLP and not has_collector(environment)


def send_metrics() -> iam.PolicyStatement:
    """Allows to send metrics by OTLP. No resource can be named: that is for data sets of one's own. A namespace is for
    PutMetricData alone, which shares the permission; no other one may be written.
    """
    return iam.PolicyStatement(
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringEqualsIfExists": {"cloudwatch:namespace": NAMESPACE}},
    )


def metrics_duty(*, to_cloudwatch: bool) -> Mapping[str, iam.PolicyStatement | None]:
    return {METRICS: send_metrics()} if to_cloudwatch else {}
