"""The Helm chart, rendered by Helm itself: `make kubernetes`, which builds it with Go. No cluster runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kubernetes.schemas import CHART, EXAMPLES, ROOT, kind_of, named, objects, problem
from tests.kubernetes.test_manifests import container_of, environment_of, settings_of

HELM = os.environ.get("HELM") or shutil.which("helm") or str(ROOT / ".local/helm/helm")

pytestmark = [
    pytest.mark.explores,
    pytest.mark.skipif(not Path(HELM).exists(), reason="needs Helm: `make kubernetes`"),
]

KUBERNETES = ("--kube-version", "1.36.0")
"""A Helm that `go install` builds knows of none itself."""

HELMS_OWN = ("helm.sh/chart", "app.kubernetes.io/managed-by")

ALL = (
    "--set", "metrics.podMonitor=true", "--set", "metrics.cloudWatch=true", "--set", "networkPolicy.enabled=true",
    "--set", "settings.failover_time=1m", "--set", "priorityClassName=high", "--set", "podAnnotations.a=b",
    "--set", "imagePullSecrets[0].name=pull", "--set", "nodeSelector.kind=spot",
    "--set-json", 'lifecycle={"preStop": {"sleep": {"seconds": 5}}}',
    "--set-json", 'tolerations=[{"key": "spot", "operator": "Exists"}]',
    "--set-json", 'env=[{"name": "MODE", "value": "test"}]',
    "--set-json", 'envFrom=[{"secretRef": {"name": "orders"}}]',
    "--set-json", 'volumes=[{"name": "data", "emptyDir": {}}]',
    "--set-json", 'volumeMounts=[{"name": "data", "mountPath": "/data"}]',
)  # fmt: skip


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False, timeout=60)


def rendered(*options: str) -> list[dict[str, object]]:
    done = helm("template", "orders-audit", str(CHART), *KUBERNETES, *options)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def without_helms_labels(found: dict[str, object]) -> dict[str, object]:
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    for label in HELMS_OWN:
        del metadata["labels"][label]
    return found


def environment_sorted(found: list[dict[str, object]]) -> list[dict[str, object]]:
    for each in found:
        if each["kind"] in ("StatefulSet", "Deployment"):
            container_of(each)["env"].sort(key=lambda variable: variable["name"])
    return sorted(found, key=kind_of)


def test_chart_passes_helms_own_lint() -> None:
    done = helm("lint", "--strict", str(CHART), *KUBERNETES)
    assert done.returncode == 0, done.stdout


def test_chart_renders_what_the_plain_manifests_have() -> None:
    plain = objects((EXAMPLES / "consumer.yaml").read_text())
    assert environment_sorted([without_helms_labels(each) for each in rendered()]) == environment_sorted(plain)


def test_chart_scales_by_lag_as_the_plain_manifest_does() -> None:
    (plain,) = objects((EXAMPLES / "keda.yaml").read_text())
    found = rendered("--set", "autoscaling.by=lag", "--set", "autoscaling.minReplicas=0")
    assert without_helms_labels(dict(named(found, "ScaledObject"))) == plain
    assert "replicas" not in named(found, "StatefulSet")["spec"]


@pytest.mark.parametrize("by", ["none", "cpu", "lag"])
@pytest.mark.parametrize("more", [(), ALL], ids=["few", "all"])
def test_chart_has_only_what_kubernetes_knows(by: str, more: tuple[str, ...]) -> None:
    found = rendered("--set", f"autoscaling.by={by}", *more)
    assert {kind_of(each): problem(each) for each in found if problem(each)} == {}


def test_values_become_settings() -> None:
    found = rendered(
        "--set", "settings.failover_time=1m", "--set-string", "settings.batch_size=500",
        "--set", "drainTimeoutSeconds=30",
    )  # fmt: skip
    settings = settings_of(named(found, "StatefulSet"))
    assert (settings.failover_time, settings.batch_size) == (timedelta(minutes=1), 500)
    assert settings.drain_timeout == timedelta(seconds=30)
    assert named(found, "StatefulSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 40


def test_an_autoscaler_owns_the_number_of_pods() -> None:
    found = rendered("--set", "autoscaling.by=cpu", "--set", "autoscaling.minReplicas=0")
    assert "replicas" not in named(found, "StatefulSet")["spec"]
    scaler = named(found, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders-audit"}
    assert scaler["minReplicas"] == 1, "without KEDA none goes to 0"


@pytest.mark.parametrize(
    ("value", "named_in_the_error"),
    [
        ("handler=orders", "handler"),
        ("settings.worker_id=one", "worker_id"),
        ("settings.batch_size=500", "batch_size"),
        ("autoscaling.by=luck", "autoscaling"),
        ("replica=3", "replica"),
        ("port=80", "port"),
    ],
)
def test_wrong_values_are_refused_by_name(value: str, named_in_the_error: str) -> None:
    done = helm("template", "orders-audit", str(CHART), *KUBERNETES, "--set", value)
    assert done.returncode != 0
    assert named_in_the_error in done.stderr


def test_hardened_and_other_clusters_have_their_values() -> None:
    digest = "sha256:" + "0" * 64
    found = rendered(
        "--set", "user=0", "--set", "address=[::]", "--set", f"image.digest={digest}",
        "--set", "metrics.podMonitor=true", "--set", "metrics.podMonitorLabels.release=prometheus",
    )  # fmt: skip
    pods = named(found, "StatefulSet")
    security = pods["spec"]["template"]["spec"]["securityContext"]
    assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, "the cluster chooses"
    assert settings_of(pods).health == "[::]:8080"
    assert container_of(pods)["image"] == f"registry.example.com/orders-audit@{digest}"
    assert named(found, "PodMonitor")["metadata"]["labels"]["release"] == "prometheus"


def test_account_of_pod_identity_has_no_annotation() -> None:
    account = named(rendered("--set", "serviceAccount.roleArn="), "ServiceAccount")
    assert "annotations" not in account["metadata"]
    assert environment_of(container_of(named(rendered(), "StatefulSet")))["AWS_REGION"] == "eu-west-1"
