"""How much a construct watches what it deploys: the property `monitoring`.

A stack that exists keeps what it has until its owner chooses, and synth does not know whether a stack exists. So it is
as with the CDK's own feature flags: without a choice the level is `full`, as it was before there were others, and a new
app chooses `lean` once, in the context of its cdk.json. `sublet deploy` looks whether the stack exists, and chooses
`lean` for a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from aws_cdk import Annotations
from constructs import Construct
from sublet.errors import SettingsError
from sublet.metric_names import LEAN, OF_EXPORT, Metric
from sublet.settings import MetricsByShard, MetricsLevel

FLAG = "sublet:monitoring"
"""CDK context: the level of every construct of the app that states none."""


class MonitoringLevel(StrEnum):
    """`lean`: alarms on AWS' own metrics and on five of ours, and a query instead of a dashboard. `full`: every alarm
    and metric, and a dashboard. `none`: no alarms, for the second deployment of an application, or if your own alarms
    watch it."""

    LEAN = "lean"
    FULL = "full"
    NONE = "none"


Level = MonitoringLevel | str | bool | None
"""How a level is stated. False is `none`, True `full`, and None what the app's context says."""


def level_of(scope: Construct, stated: Level, *, hints: bool = True) -> MonitoringLevel:
    """`hints`: say at synth that there is a cheaper level. Raises SettingsError."""
    if isinstance(stated, bool):
        return MonitoringLevel.FULL if stated else MonitoringLevel.NONE
    if stated is not None:
        return _parsed("monitoring", stated)
    chosen = scope.node.try_get_context(FLAG)
    if chosen is not None:
        return _parsed(FLAG, chosen)
    if hints:
        Annotations.of(scope).add_info(
            "monitoring is full, as stacks without a choice have it. A new one is watched for less than $3 a month "
            f'with monitoring="lean", or "{FLAG}": "lean" in the context of cdk.json'
        )
    return MonitoringLevel.FULL


def _parsed(name: str, stated: object) -> MonitoringLevel:
    try:
        return MonitoringLevel(str(stated))
    except ValueError:
        raise SettingsError(name, stated, f"one of {', '.join(MonitoringLevel)}") from None


def with_metrics(level: MonitoringLevel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with those that the level implies. Raises SettingsError for metrics that its alarms do not
    watch.
    """
    stated = settings.get("metrics_level")
    implied = {MonitoringLevel.LEAN: MetricsLevel.LEAN, MonitoringLevel.FULL: MetricsLevel.FULL}.get(level)
    if implied is not None and stated is not None and str(stated) != implied:
        raise SettingsError("metrics_level", stated, f"{implied}: the alarms of monitoring={level} watch those metrics")
    if level is not MonitoringLevel.LEAN:
        return dict(settings)
    return {"metrics_level": MetricsLevel.LEAN, "metrics_by_shard": MetricsByShard.NONE, **settings}


def check_has(level: MonitoringLevel, metric: Metric) -> None:
    """Refuses a metric that CloudWatch does not have on this level, so that nobody watches it in vain."""
    is_lean = metric in {counted.metric for counted in (*LEAN.values(), *OF_EXPORT.values())}
    if level is MonitoringLevel.LEAN and not is_lean:
        raise SettingsError("monitoring", level, f"{MonitoringLevel.FULL}, for the metric {metric}")
    if level is MonitoringLevel.FULL and metric is Metric.STANDSTILL_AGE:
        raise SettingsError("monitoring", level, f"{MonitoringLevel.LEAN}, for the metric {metric}")


def check_unheard(level: MonitoringLevel, **stated: object) -> None:
    """Refuses what is stated of alarms, if there are none."""
    if level is MonitoringLevel.NONE:
        for name, value in stated.items():
            if value is not None:
                raise SettingsError(
                    name, value, "left out, since monitoring=none creates neither alarms nor a dashboard"
                )


def check_unseen(level: MonitoringLevel, dashboard_name: str | None) -> None:
    """Refuses the name of a dashboard, if there is none."""
    if level is not MonitoringLevel.FULL and dashboard_name is not None:
        raise SettingsError(
            "dashboard_name", dashboard_name, f"left out, since monitoring={level} creates no dashboard"
        )
