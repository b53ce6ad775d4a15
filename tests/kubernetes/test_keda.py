"""keda.yaml asks for what `sublet exporter` shows, at the address at which exporter.yaml has it."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sublet.metric_names import OF_EXPORTER, Metric
from sublet.operate.cli.monitor.exporter import add_arguments
from sublet.operate.exporter.samples import application_samples
from sublet.runtimes.prometheus_page import SampleCollector, page

from tests.doubles.fleet import fleet_of
from tests.kubernetes.schemas import EXAMPLES, ROOT, named, objects
from tests.kubernetes.test_manifests import container_of
from tests.promtool import promtool
from tests.unit.operate.exporter.test_exported import QUIET, STALLED

EXPORTER = objects((EXAMPLES / "exporter.yaml").read_text())
(SCALED,) = objects((EXAMPLES / "keda.yaml").read_text())
SELECTOR = re.compile(r'(?P<name>\w+)\{application="(?P<application>[^"]+)"\}')


def trigger() -> Mapping[str, str]:
    (found,) = SCALED["spec"]["triggers"]
    assert found["type"] == "metrics-api"
    metadata: Mapping[str, str] = found["metadata"]
    return metadata


def exporter_options() -> Any:
    parser = ArgumentParser()
    add_arguments(parser)
    container = container_of(named(EXPORTER, "Deployment"))
    assert container["command"] == ["python", "-m", "sublet", "exporter"]
    return parser.parse_args(container["args"])


def test_the_scaler_asks_the_service_of_the_exporter() -> None:
    service = named(EXPORTER, "Service")
    (port,) = service["spec"]["ports"]
    (container_port,) = container_of(named(EXPORTER, "Deployment"))["ports"]
    assert trigger()["url"] == f"http://{service['metadata']['name']}.default.svc:{port['port']}/metrics"
    assert port["targetPort"] == container_port["name"]
    assert exporter_options().address == ("0.0.0.0", container_port["containerPort"])  # noqa: S104 -- in its pod


def test_the_scaler_selects_one_value_of_the_exporters_page() -> None:
    selector = SELECTOR.fullmatch(trigger()["valueLocation"])
    assert selector is not None
    assert selector["application"] in {each.application for each in exporter_options().application}
    registry = CollectorRegistry()
    found = fleet_of(STALLED, QUIET)
    registry.register(SampleCollector(lambda: application_samples(found, selector["application"], "orders")))
    families = text_string_to_metric_families(page("text/plain", registry)[0].decode())
    samples = [each for one in families for each in one.samples if each.name == selector["name"]]
    assert [(each.labels["application"], each.value) for each in samples] == [("orders-audit", 41 * 60)]


def test_the_scaler_goes_from_none_to_at_most_its_ceiling() -> None:
    spec = SCALED["spec"]
    assert (spec["minReplicaCount"], trigger()["format"]) == (0, "prometheus")
    assert 0 < float(trigger()["activationTargetValue"]) < float(trigger()["targetValue"])
    consumer = named(objects((EXAMPLES / "consumer.yaml").read_text()), "StatefulSet")
    target = spec["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (consumer["kind"], consumer["metadata"]["name"])


def test_the_query_for_prometheus_is_promql_over_defined_names(tmp_path: Path) -> None:
    text = (ROOT / "docs/kubernetes.md").read_text()
    (block,) = re.findall(r"```yaml\n(triggers:.*?)```", text, re.DOTALL)
    query = yaml.safe_load(block)["triggers"][0]["metadata"]["query"]
    known = {OF_EXPORTER["application_lag"].instrument.prometheus}
    assert Metric.TOTAL_LEASES.elsewhere is not None
    known.add(Metric.TOTAL_LEASES.elsewhere.prometheus)
    assert set(re.findall(r"\bsublet_\w+", query)) == known
    (tmp_path / "q.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "q", "rules": [{"record": "q", "expr": query}]}]})
    )
    code, said = promtool("check", "rules", "q.yml", folder=tmp_path)
    assert code == 0, said
