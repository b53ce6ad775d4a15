"""The step that asks CloudWatch for metrics that came by OTLP: whether they arrive, and what becomes of deltas."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from sublet.aws.clients import MACHINE
from sublet.aws.otlp.endpoint import SIGNED_FOR, CloudWatch, Refused
from sublet.aws.otlp.exported_metrics import OtlpSeries
from sublet.metric_names import Attribute, Metric
from sublet.operate.rules.stack_names import consumer_stack

from tests.acceptance.outcomes import PATIENCE, NotAsItShouldBe, only_on_aws
from tests.acceptance.stage import Stage

RECORDS = (2, 3)
APART = 5.0
"""Seconds between two requests: points of one series."""


def metrics_by_otlp(stage: Stage) -> None:
    """Sends two requests as a function does, and asks for them by PromQL; then for those of the functions that `sublet
    deploy` deployed with metrics_export=otlp, and for its alarms' state.
    """
    application = stage.name("otlp")
    _send(stage, application)
    began, found = time.monotonic(), 0.0
    patience = 1 if stage.plan.is_dry else PATIENCE
    while found < sum(RECORDS) and time.monotonic() - began < patience:
        time.sleep(1 if stage.plan.is_dry else 5)
        found = _value(stage, f"sum(sum_over_time({_selected(Metric.RECORDS, application)}[10m]))")
    stage.facts["two deltas as a sum over time"] = f"{found:g} of {sum(RECORDS)}"
    stage.facts["arrived within"] = f"{time.monotonic() - began:.0f} s"
    if found != sum(RECORDS):
        only_on_aws(stage, f"sum_over_time of deltas of {RECORDS} is {found:g}: alarms on counters would not fire")
    _look_at_deployed(stage)


def _send(stage: Stage, application: str) -> None:
    endpoint = CloudWatch(MACHINE, stage.client("cloudwatch"))
    series = OtlpSeries(application, "accepted", endpoint.temporality, datetime.now(UTC))
    for number, records in enumerate(RECORDS):
        time.sleep(APART if number else 0)
        series.put(Metric.MILLIS_BEHIND_LATEST, 1_500, "shardId-000000000000")
        series.put(Metric.RECORDS, records, "shardId-000000000000")
        for request in series.taken(datetime.now(UTC)):
            try:
                endpoint.send(request)
            except Refused as refused:
                only_on_aws(stage, f"CloudWatch did not take a request of metrics: {refused}")
            stage.facts["bytes of a request with two series"] = str(len(request))


def _look_at_deployed(stage: Stage) -> None:
    application = stage.name("command")
    shards = _value(stage, f"count(last_over_time({_selected(Metric.RECORDS, application)}[1h]))")
    stage.facts["series of the deployed functions' shards"] = f"{shards:g}"
    if not shards:
        raise NotAsItShouldBe(f"no shard of {application} has records by OTLP: see the functions' logs")
    pages = stage.client("cloudwatch").get_paginator("describe_alarms")
    found = pages.paginate(AlarmNamePrefix=f"{consumer_stack(application)}-")
    states = {each["AlarmName"]: each["StateValue"] for page in found for each in page["MetricAlarms"]}
    named = {name: state for name, state in states.items() if "ByShard" in name or "ByStream" in name}
    stage.facts["alarms that name a shard"] = ", ".join(f"{state}" for state in sorted(set(named.values()))) or "none"
    if not named or "ALARM" in named.values():
        raise NotAsItShouldBe(f"the PromQL alarms of a healthy consumer are {named}")


def _selected(metric: Metric, application: str) -> str:
    assert metric.elsewhere is not None
    return f'{{"{metric.elsewhere.name}","{Attribute.APPLICATION.otlp}"="{application}"}}'


def _value(stage: Stage, query: str) -> float:
    """The one value of an instant query, or 0 without one ("Prometheus-compatible APIs" in CloudWatch's guide)."""
    client = stage.client("cloudwatch")
    url = f"{client.meta.endpoint_url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    asked: Any = AWSRequest("GET", url)
    credentials = vars(vars(client)["_request_signer"])["_credentials"].get_frozen_credentials()
    SigV4Auth(credentials, SIGNED_FOR, client.meta.region_name).add_auth(asked)
    with urlopen(Request(asked.prepare().url, headers=dict(asked.headers)), timeout=30) as reply:  # noqa: S310 - AWS' own
        (result,) = json.load(reply)["data"]["result"] or [{"value": (0, "0")}]
    return float(result["value"][1])
