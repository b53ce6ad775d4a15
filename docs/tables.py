"""The documents' tables, generated from the code. `python -m docs.tables` writes each table between its marks, such as
`<!-- settings -->` and `<!-- /settings -->`, and the settings as typed keyword arguments (docs/keywords.py).
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

from sublet.metric_names import OF_EXPORTER, OF_PRODUCERS, PROCESS_DURATION, Attribute, Metric
from sublet.operate.rules import prices, role_needs
from sublet.operate.rules.alert_rules import alert_rules
from sublet.settings import DEFINITIONS, Definition, MetricsLevel
from sublet.settings.reasons import reasons
from sublet.spark.option_table import OPTIONS
from sublet.spark.other_connectors import THEIRS
from sublet_cdk import alarm_definitions, promql, roles
from sublet_cdk.alarm_kinds import EACH_STREAM, Alarm
from sublet_cdk.alarm_pace import AlarmThresholds, Pace
from sublet_cdk.set_aside_alarm import set_aside_alarm
from sublet_cdk.stream_alarms import stream_alarms

from docs import cost_rows, keywords
from docs.constructs import constructs
from docs.reference import reference
from tests.alarms.stories import WAYS
from tests.alarms.stories import rows as story_rows

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def settings() -> str:
    rows = [
        (f"`{each.name}`", _default(each), each.allowed.described, each.only or "", reasons()[each.name])
        for each in DEFINITIONS.values()
    ]
    return _table(("setting", "default", "allowed", "only for", "what, and why"), rows)


PEOPLE_SET = {
    "start_position": "before the first deployment, if only new records matter (LATEST), or those from a moment on",
    "mode": "if a minute is too long to wait: `continuous` keeps reading",
    "window": "shorter, if a deployment should take effect sooner; an Express state machine allows four minutes",
    "batch_size": "if the handler writes to something that takes fewer records at once",
    "handler_timeout": "always, if the handler calls a network: a call that hangs holds its shard",
    "on_failure": "to let a shard go on without a record that keeps failing: where such records go",
    "maximum_retry_attempts": "with it: after how many retries",
    "failover_time": "longer, if workers pause for longer than this; the same as a KCL fleet's on the same table",
}
"""The settings that a new consumer thinks about, and when to set each."""


def settings_that_people_set() -> str:
    rows = [(f"`{name}`", _default(DEFINITIONS[name]), when) for name, when in PEOPLE_SET.items()]
    return _table(("setting", "default", "set it"), rows)


def settings_of_kcl() -> str:
    return _table(("KCL", "sublet", "default", "where it differs"), _elsewhere("kcl"))


def settings_of_esm() -> str:
    return _table(("event source mapping", "sublet", "default", "where it differs"), _elsewhere("esm"))


def _elsewhere(where: Literal["kcl", "esm"]) -> list[tuple[str, ...]]:
    """Settings that it has too. A difference from the KCL by name is in the KCL's table alone."""
    return [
        (_code(name), f"`{each.name}`", _default(each), difference)
        for each in DEFINITIONS.values()
        if (name := getattr(each.elsewhere, where))
        for difference in ["" if where == "esm" and "KCL" in each.elsewhere.difference else each.elsewhere.difference]
    ]


def metrics() -> str:
    rows = [(f"`{each}`", each.unit.value, each.per.value, each.put_by.value, each.meaning) for each in Metric]
    return _table(("metric", "unit", "dimensions", "put by", "meaning"), rows)


def metrics_elsewhere() -> str:
    """Names outside of CloudWatch's embedded metric format."""
    rows = [
        (f"`{each}`", f"`{at.name}`", at.kind.value, f"`{at.unit}`", f"`{at.prometheus}`")
        for each in Metric
        if (at := each.elsewhere) is not None
    ]
    duration = PROCESS_DURATION.instrument
    rows.append(("", f"`{duration.name}`", duration.kind.value, f"`{duration.unit}`", f"`{duration.prometheus}`"))
    return _table(("EMF", "OpenTelemetry", "instrument", "unit", "Prometheus"), rows)


def producer_metrics() -> str:
    """Of `sublet.Producer`, for Prometheus alone."""
    rows = [(f"`{each.instrument.prometheus}`", each.meaning) for each in OF_PRODUCERS.values()]
    return _table(("Prometheus", "meaning"), rows)


def exporter_metrics() -> str:
    """Of `sublet exporter` alone."""
    rows = [(f"`{each.instrument.prometheus}`", each.meaning) for each in OF_EXPORTER.values()]
    return _table(("Prometheus", "meaning"), rows)


def alert_rule_table() -> str:
    rows = [
        (f"`{rule.name}`", rule.severity, f"`{rule.expr}`".replace("|", "\\|"), rule.lasts) for rule in alert_rules()
    ]
    return _table(("alert", "severity", "fires while", "for"), rows)


def metric_attributes() -> str:
    rows = [(f"`{each}`", f"`{each.otlp}`", f"`{each}`") for each in Attribute]
    return _table(("EMF's dimension", "OpenTelemetry's attribute", "Prometheus' label"), rows)


def alarms_by_query() -> str:
    """PromQL alarms, with a tick every minute."""
    rows = [
        (f"`{each.name}`", f"`{each.of.name}`", each.of.when, _minutes(each.pending), _minutes(each.recovery))
        for each in _promql_alarms()
    ]
    return _table(("alarm", "beside", "fires when", "after", "is over after"), rows)


def query() -> str:
    """The shortest query by shard."""
    shortest = min(_promql_alarms(), key=lambda each: (not each.name.endswith("ByShard"), len(each.query)))
    lines = textwrap.wrap(shortest.query, 120, break_on_hyphens=False, break_long_words=False)
    return "\n".join(["```promql", *lines, "```"])


def _promql_alarms() -> Sequence[promql.PromQLAlarm]:
    return promql.promql_alarms(Pace(), AlarmThresholds(), "orders-audit", on_lambda=True)


def _minutes(lasts: timedelta) -> str:
    return f"{lasts / timedelta(minutes=1):g} min" if lasts else "at once"


def alarms() -> str:
    """Alarms, with a tick every minute."""
    return _alarms(defined_alarms())


def alarms_of_lean() -> str:
    return _alarms(alarm_definitions.lean_alarms(Pace(), AlarmThresholds(), on_lambda=True))


def _alarms(defined: Sequence[Alarm]) -> str:
    rows = [(f"`{each.name}`", each.when, f"{each.points} of {each.periods}") for each in defined]
    return _table(("alarm", "fires when", "periods"), rows)


def alarms_by_stream() -> str:
    """Those that name a stream, by their kinds."""
    found = stream_alarms(Pace(), AlarmThresholds(), "", [EACH_STREAM])
    return _alarms(found)


def defined_alarms() -> Sequence[Alarm]:
    return (*alarm_definitions.alarms(Pace(), AlarmThresholds(), on_lambda=True), set_aside_alarm())


def stories() -> str:
    """Simulated faults, and the minutes until each alarm fires."""
    return _stories(MetricsLevel.FULL)


def stories_of_lean() -> str:
    return _stories(MetricsLevel.LEAN)


def _stories(level: MetricsLevel) -> str:
    return _table(("what happens", *(way.name for way in WAYS)), story_rows(level))


def options() -> str:
    """Options of the Spark data source."""
    rows = [(f"`{each.name}`", _code(each.default or ""), ", ".join(each.uses), each.meaning) for each in OPTIONS]
    return _table(("option", "default", "for", "meaning"), rows)


def other_connectors() -> str:
    """Options of Spark's other sources, and what to write instead: one answer, one row."""
    connectors = ("databricks", "awslabs", "qubole", "kafka")
    rows: dict[str, dict[str, list[str]]] = {}
    for each in THEIRS:
        row = rows.setdefault(each.here, {connector: [] for connector in connectors})
        for connector in connectors:
            row[connector] += [_code(name)] if (name := getattr(each, connector)) else []
    return _table(
        ("Databricks", "awslabs", "Qubole, roncemer, Glue", "Kafka", "here"),
        [(*map(", ".join, row.values()), _code(here) if here.isidentifier() else here) for here, row in rows.items()],
    )


def cost() -> str:
    """US$ per month, from measured calls and list prices."""
    rows = []
    for design in cost_rows.designs(prices.COUNTED_WRITES):
        months = [prices.month(design, shards) for shards in cost_rows.SHARDS]
        parts = ", ".join(_dollars(part) for part in months[-1])
        rows.append((design.name, *(_dollars(month.total) for month in months), parts))
    for name, of in cost_rows.others(prices.COUNTED_WRITES[prices.CONTINUOUS]).items():
        rows.append((name, *(_dollars(of(shards)) for shards in cost_rows.SHARDS), ""))
    columns = (f"{shards:,}" for shards in cost_rows.SHARDS)
    return _table(("design", "1 shard", *list(columns)[1:], "of the last: Lambda, Step Functions, DynamoDB"), rows)


def whole_cost() -> str:
    """Whole bills for ten shards."""
    rows = [
        (name, *map(_dollars, bill), _dollars(bill.total), _dollars(bill.total_full))
        for name, bill in cost_rows.whole(TEN_SHARDS).items()
    ]
    columns = (
        "runs",
        "watched, lean",
        "or full",
        "logs, Container Insights",
        "way out of the network",
        "in all, lean",
        "or full",
    )
    return _table(("design", *columns), rows)


TEN_SHARDS = 10


def process_policy() -> str:
    """The policy of a process' role, for the application orders-audit on the stream orders."""
    tables = [f"{TABLE}/orders-audit", f"{TABLE}/orders-audit-sightings"]
    statements = {
        "Stream": (role_needs.PROCESS_ON_STREAM, "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"),
        "Leases": (role_needs.PROCESS_ON_LEASES, tables[0]),
        "Sightings": (role_needs.PROCESS_ON_SIGHTINGS, tables[1]),
        "MakeTables": (roles.MAKE_TABLE, tables),
        "BackUpLeases": (["dynamodb:UpdateContinuousBackups"], tables[0]),
    }
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}
            for sid, (actions, resource) in statements.items()
        ],
    }
    return f"```json\n{json.dumps(policy, indent=2)}\n```"


TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table"


TABLES: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "settings that people set": settings_that_people_set,
    "settings of kcl": settings_of_kcl,
    "settings of esm": settings_of_esm,
    "metrics": metrics,
    "metrics elsewhere": metrics_elsewhere,
    "metric attributes": metric_attributes,
    "producer metrics": producer_metrics,
    "promql alarms": alarms_by_query,
    "promql query": query,
    "exporter metrics": exporter_metrics,
    "alert rules": alert_rule_table,
    "alarms": alarms,
    "alarms of lean": alarms_of_lean,
    "alarms by stream": alarms_by_stream,
    "stories": stories,
    "stories of lean": stories_of_lean,
    "options": options,
    "other connectors": other_connectors,
    "cost": cost,
    "reference": reference,
    "constructs": constructs,
    "process policy": process_policy,
    "whole cost": whole_cost,
}

LONG = 150
"""Pages with more lines have a table of contents."""


def contents(text: str) -> str:
    """A link to each section of the page, and to the page that says what its words mean."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^## (.*)$", prose, re.MULTILINE)
    entries = "\0· ".join(f"[{heading}](#{_anchor(heading)})".replace(" ", "\0") for heading in headings)
    words = "[words](concepts.md)"
    lines = textwrap.wrap(f"On this page: {entries}\0· {words}", 120, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines).replace("\0", " ")


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def with_tables(text: str, but: Collection[str] = ()) -> str:
    """The document with each table that it has marks for. `but`: tables that stay as they are."""
    for name, table in TABLES.items():
        if name not in but:
            text = _filled(text, name, table)
    return _filled(text, "contents", lambda: contents(text))


def _filled(text: str, name: str, table: Callable[[], str]) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in text:
        return text
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table()}\n{end}{after}"


def _default(setting: Definition) -> str:
    return "required" if setting.is_required else _code(setting.default_text) or "none"


def _dollars(amount: float) -> str:
    """Two significant figures."""
    return f"{amount:.2f}" if amount < 1 else f"{amount:.1f}" if amount < 10 else f"{amount:,.0f}"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return "\n".join(lines + [f"| {' | '.join(cells)} |" for cells in rows])


if __name__ == "__main__":
    keywords.FILE.write_text(keywords.keywords())
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text()))
