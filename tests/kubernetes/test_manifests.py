"""The manifests of examples/kubernetes: known to Kubernetes, and what `sublet run` makes of them."""

from __future__ import annotations

import json
import tomllib
from argparse import ArgumentParser
from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sublet.command_line.run import add_arguments, given_settings
from sublet.runtimes.health_server import PATHS
from sublet.settings import Settings

from tests.kubernetes.schemas import CHART, EXAMPLES, ROOT, Object, kind_of, named, objects, problem

MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))
POD = "orders-audit-0"
CONSUMER = objects((EXAMPLES / "consumer.yaml").read_text())


def container_of(found: Object) -> Mapping[str, Any]:
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, Mapping)
    return container


def environment_of(container: Mapping[str, Any]) -> dict[str, str]:
    """As the kubelet sets it for the pod POD."""
    fields = {"metadata.name": POD}
    return {
        each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container["env"]
    }


def settings_of(found: Object) -> Settings:
    """What `sublet run` reads from a StatefulSet's command and environment."""
    container = container_of(found)
    python, module, name, run, *arguments = container["command"]
    assert (python, module, name, run) == ("python", "-m", "sublet", "run")
    parser = ArgumentParser()
    add_arguments(parser)
    return given_settings(parser.parse_args(arguments), environment_of(container))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_have_only_what_their_kinds_know(path: Path) -> None:
    found = objects(path.read_text())
    assert found
    assert {kind_of(each): problem(each) for each in found if problem(each)} == {}


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        ("StatefulSet", ("spec", "template", "spec", "enableServiceLink"), False),
        ("StatefulSet", ("spec", "replicas"), "two"),
        ("PodDisruptionBudget", ("spec", "unhealthyPodEvictionPolicy"), 1),
        ("ServiceAccount", ("apiVersion",), "v2"),
    ],
)
def test_schemas_refuse_a_name_or_a_type_that_kubernetes_does_not_know(
    kind: str, where: tuple[str, ...], value: object
) -> None:
    found = deepcopy(named(CONSUMER, kind))
    inner: Any = found
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    if "apiVersion" in where:
        with pytest.raises(KeyError):
            problem(found)
    else:
        assert problem(found)


def test_consumer_runs_with_the_settings_that_its_environment_gives() -> None:
    settings = settings_of(named(CONSUMER, "StatefulSet"))
    assert (settings.application, settings.stream, settings.handler) == ("orders-audit", "orders", "orders:handle")


def test_a_pod_that_starts_again_has_the_worker_id_whose_leases_it_resumes() -> None:
    """`test_restarted_process_resumes_its_leases` has the rest: by this id, before failover_time is over."""
    assert settings_of(named(CONSUMER, "StatefulSet")).worker_id == POD


def test_kubernetes_waits_ten_seconds_longer_than_the_process_drains() -> None:
    pods = named(CONSUMER, "StatefulSet")["spec"]["template"]["spec"]
    grace = timedelta(seconds=pods["terminationGracePeriodSeconds"])
    assert grace == settings_of(named(CONSUMER, "StatefulSet")).drain_timeout + timedelta(seconds=10)


def test_probes_ask_what_the_health_server_answers_at_the_port_that_it_has() -> None:
    container = container_of(named(CONSUMER, "StatefulSet"))
    (port,) = container["ports"]
    address = settings_of(named(CONSUMER, "StatefulSet")).health
    assert address == f"0.0.0.0:{port['containerPort']}"
    asked = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {each["port"] for each in asked.values()} == {port["name"]}
    assert {each["path"] for each in asked.values()} == {"/health/live", "/health/ready"}
    assert set(PATHS) >= {each["path"] for each in asked.values()}
    assert asked["livenessProbe"]["path"] == "/health/live", "not ready is no reason to kill it"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_pods_get_no_rights_that_they_do_not_need(path: Path) -> None:
    for found in objects(path.read_text()):
        if found["kind"] not in ("StatefulSet", "Deployment"):
            continue
        pods = found["spec"]["template"]["spec"]
        assert pods["securityContext"]["runAsNonRoot"] is True
        assert pods["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pods["enableServiceLinks"] is pods["automountServiceAccountToken"] is False
        for container in pods["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith(":latest")


def test_everything_of_an_application_selects_its_pods() -> None:
    pods = named(CONSUMER, "StatefulSet")
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert pods["spec"]["selector"]["matchLabels"] == labels
    assert named(CONSUMER, "Service")["spec"]["selector"] == labels
    assert named(CONSUMER, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert pods["spec"]["serviceName"] == named(CONSUMER, "Service")["metadata"]["name"]


def test_values_of_the_chart_are_known_to_its_schema() -> None:
    import yaml

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}


def test_image_gets_what_the_wheel_is_made_of_and_nothing_else_of_the_checkout() -> None:
    """A layer keeps what a later one removes: neither history nor environments may be copied."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    made_of = {*wheel["packages"], *wheel["force-include"], "pyproject.toml", project["project"]["readme"], "LICENSE"}
    lines = [line.split() for line in (EXAMPLES / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")]
    copied = {path for _, *paths, _ in lines for path in paths} - {"examples/container/handlers"}
    assert all((ROOT / path).exists() for path in copied)
    assert {path for path in made_of if not any(Path(path).is_relative_to(each) for each in copied)} == set()
    assert {each for each in copied if not any(Path(path).is_relative_to(each) for path in made_of)} == set()
