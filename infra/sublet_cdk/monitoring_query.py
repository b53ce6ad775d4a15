"""What monitoring=lean has in place of a dashboard: a link to CloudWatch Logs Insights with a query in it. It creates
nothing, and a query costs only the logs that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from aws_cdk import Token
from aws_cdk import aws_logs as logs
from constructs import Construct
from sublet.aws.metrics import PUT
from sublet.metric_names import Metric
from sublet_cdk.alarm_texts import cloudwatch_console, stated_name

OVER_SECONDS = 3 * 3600
EACH = "5m"

SHOWN = {
    "max": (
        Metric.UNREAD_AGE,
        Metric.OWNER_STALLED_AGE,
        Metric.HANDLER_CALL_AGE,
        Metric.MILLIS_BEHIND_LATEST,
        Metric.HANDLER_ATTEMPTS,
        Metric.UNCLAIMED_LEASES,
        Metric.THROTTLED_POLLS,
    ),
    "sum": (
        Metric.RECORDS,
        Metric.BYTES,
        Metric.LEASES_FAILED,
        Metric.HANDLER_FAILURES,
        Metric.RECORDS_SET_ASIDE,
        Metric.DATA_GAP,
    ),
}
"""By statistic."""


def query() -> str:
    shown = ", ".join(
        f"{statistic}({PUT}.{metric}.{statistic}) as {metric}"
        for statistic, metrics in SHOWN.items()
        for metric in metrics
    )
    return f"filter ispresent(application)\n| stats {shown} by bin({EACH}) as at\n| sort at desc"


def query_link(scope: Construct, groups: Sequence[logs.ILogGroup]) -> str:
    """The console's own form of a link: a `~(...)` structure, whose special characters are quoted with `*`, in a
    fragment whose special characters are quoted with `$`.
    """
    sources = "".join(f"~'{_name(group)}" for group in groups)
    detail = (
        f"~(end~0~start~-{OVER_SECONDS}~timeType~'RELATIVE~unit~'seconds~editorString~'{_quoted(query())}"
        f"~source~({sources}))"
    )
    return f"{cloudwatch_console(scope)}#logsV2:logs-insights$3FqueryDetail$3D{detail}"


def _name(group: logs.ILogGroup) -> str:
    name = stated_name(group)
    return name if Token.is_unresolved(name) else _quoted(name)


def _quoted(text: str) -> str:
    return quote(text, safe="").replace("%", "*")
