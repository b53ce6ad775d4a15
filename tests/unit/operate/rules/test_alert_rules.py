"""The rules and the dashboard of `sublet exporter`: Prometheus takes them, and they fire when they should."""

from __future__ import annotations

import json
import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from sublet.metric_names import OF_EXPORTER, Attribute, Metric
from sublet.operate.cli.main import main
from sublet.operate.rules.alert_rules import alert_rules, rules_text
from sublet.operate.rules.grafana_dashboard import dashboard, panels

from tests.promtool import promtool

KNOWN = {metric.elsewhere.prometheus for metric in Metric if metric.elsewhere} | {
    each.instrument.prometheus for each in OF_EXPORTER.values()
}
SHARD = '{application="audit", stream="orders", shard_id="shardId-1"}'


def named_in(expr: str) -> set[str]:
    return set(re.findall(r"\b(?:sublet|messaging)_\w+", expr))


def test_rules_are_what_promtool_accepts(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text())
    code, said = promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert code == 0, said
    assert f"{len(alert_rules())} rules found" in said


def test_rules_know_defined_names_alone() -> None:
    assert {name for rule in alert_rules() for name in named_in(rule.expr)} <= KNOWN


def test_the_command_prints_the_rules_and_the_dashboard(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", "--rules"]) == 0
    rules = yaml.safe_load(capsys.readouterr().out)["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [rule.name for rule in alert_rules()]
    assert main(["exporter", "--dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard()


STORIES: dict[str, tuple[dict[str, str], int, int]] = {
    "SubletShardStalled": ({f"sublet_checkpoint_age_seconds{SHARD}": "0x10 0+60x60"}, 20, 30),
    "SubletShardLags": ({f"sublet_lag_seconds{SHARD}": "0x10 900x60"}, 20, 30),
    "SubletRecordsAreAboutToBeLost": (
        {'sublet_retention_left_seconds{application="audit"}': "86400x10 20000x60"},
        10,
        13,
    ),
    "SubletRecordsAreLost": ({f"sublet_data_gaps_total{SHARD}": "_x10 1x60"}, 9, 12),
    "SubletFewerLeasesThanShards": (
        {'sublet_leases{application="audit"}': "4x10 3x60", 'sublet_shards{application="audit"}': "4x70"},
        15,
        25,
    ),
    "SubletHandlerFails": ({f"sublet_handler_attempts{SHARD}": "0x10 5x60"}, 12, 20),
    "SubletRefused": ({f"sublet_leases_failed_total{SHARD}": "0x10 0+1x60"}, 10, 20),
    "SubletReadsAreThrottled": ({f"sublet_throttled_polls{SHARD}": "1x10 40x60"}, 12, 20),
    "SubletLeasesCannotBeRead": ({'sublet_malformed_rows{application="audit"}': "0x10 1x60"}, 12, 20),
    "SubletRecordsSetAside": ({f"sublet_records_set_aside_total{SHARD}": "_x10 7x60"}, 9, 12),
    "SubletExporterIsBlind": ({'sublet_exporter_up{application="audit"}': "1x10 0x60"}, 15, 25),
}
"""By alert: the series, a minute at which it is silent, and one at which it fires."""

IN_PART = {
    'sublet_exporter_up{application="audit"}': "1x70",
    'sublet_lag_unknown_shards{application="audit", stream="orders"}': "0x10 2x60",
}
"""Shards that the exporter may not read."""


def test_every_rule_has_a_story() -> None:
    assert STORIES.keys() == {rule.name for rule in alert_rules()}


def test_each_alert_is_silent_before_its_fault_and_fires_after_it(tmp_path: Path) -> None:
    """Prometheus' own evaluation, by `promtool test rules`. Nothing else fires in any of the stories."""
    (tmp_path / "rules.yml").write_text(rules_text())
    tests: list[dict[str, Any]] = []
    stories = [*STORIES.items(), ("SubletExporterIsBlind", (IN_PART, 15, 25))]
    for name, (series, silent, fires) in stories:
        at = {f"{minute}m": [] if minute == silent else [name] for minute in (silent, fires)}
        checks = [
            {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": minute, "exp_samples": [
                {"labels": f'{{alertname="{each}"}}', "value": 1} for each in firing
            ]}
            for minute, firing in at.items()
        ]  # fmt: skip
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in series.items()],
                "promql_expr_test": checks,
            }
        )
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": ["rules.yml"], "tests": tests}))
    code, said = promtool("test", "rules", "tests.yml", folder=tmp_path)
    assert code == 0, said


def test_dashboard_has_queries_that_promtool_accepts_and_defined_names_alone(tmp_path: Path) -> None:
    """Grafana publishes no JSON schema of dashboards: these are the parts that it reads."""
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert {name for query in queries for name in named_in(query)} <= KNOWN
    rules = [
        {"record": f"q{number}", "expr": query.replace("$application", ".*")} for number, query in enumerate(queries)
    ]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    code, said = promtool("check", "rules", "queries.yml", folder=tmp_path)
    assert code == 0, said


def test_panels_are_numbered_and_do_not_overlap() -> None:
    drawn = dashboard()["panels"]
    assert [panel["id"] for panel in drawn] == list(range(1, len(panels()) + 1))
    places = [panel["gridPos"] for panel in drawn]
    for one, other in combinations(places, 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for panel in drawn:
        names = [target["refId"] for target in panel["targets"]]
        assert all(earlier < later for earlier, later in pairwise(names))


def test_queries_keep_the_labels_that_their_legends_show() -> None:
    for panel in panels():
        for legend, query in panel.queries.items():
            shown = set(re.findall(r"{{(\w+)}}", legend))
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))))
            assert shown <= kept, panel.title
    assert {Attribute.APPLICATION.value} <= set(
        re.findall(r"\w+", dashboard()["templating"]["list"][1]["query"]["query"])
    )
