"""Makes tests/data/kubernetes/schemas.json: `python -m tests.kubernetes.vendor_schemas`, with Go to get the sources.

They are Kubernetes' own OpenAPI document and the CRDs of KEDA and of the Prometheus operator, as their Go modules have
them: what the kinds of examples/kubernetes need of them, without descriptions. Names that a schema does not know are
refused, where the API server would only drop them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.schemas import SCHEMAS

KUBERNETES = "k8s.io/kubernetes@v1.36.3"
KINDS = {
    "v1/ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "v1/Service": "io.k8s.api.core.v1.Service",
    "v1/Secret": "io.k8s.api.core.v1.Secret",
    "apps/v1/StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
    "apps/v1/Deployment": "io.k8s.api.apps.v1.Deployment",
    "policy/v1/PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "autoscaling/v2/HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "networking.k8s.io/v1/NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
}
CRDS = {
    "github.com/kedacore/keda/v2@v2.21.0": ["config/crd/bases/keda.sh_scaledobjects.yaml"],
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("podmonitors", "prometheusrules")
    ],
}
KEPT = ("type", "required", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")
GO = shutil.which("go") or "go"
INT_OR_STRING = {"type": ["integer", "string"]}
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def folder_of(module: str) -> Path:
    found = subprocess.run([GO, "mod", "download", "-json", module], capture_output=True, text=True, check=True)
    return Path(json.loads(found.stdout)["Dir"])


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema without what only a reader needs, and closed: no other properties."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    kept: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        kept["items"] = strict(schema["items"])
    return kept


def references(schema: object) -> Iterator[str]:
    yield from re.findall(r"#/definitions/([\w.-]+)", json.dumps(schema))


def with_identity(schema: dict[str, Any], version: str, kind: str) -> dict[str, Any]:
    """The kind as a document of its own: it says which it is, and has no status."""
    named = {"apiVersion": {"const": version}, "kind": {"const": kind}}
    properties = {name: each for name, each in schema["properties"].items() if name != "status"}
    required = sorted({"apiVersion", "kind", "metadata", *schema.get("required", ())})
    return {**schema, "required": required, "properties": {**properties, **named}}


def of_a_crd(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = yaml.safe_load(path.read_text())["spec"]
    for version in spec["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"$ref": f"#/definitions/{METADATA}"}
        name, kind = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
        yield f"{name}/{kind}", with_identity(schema, name, kind)


def main() -> None:
    folder = folder_of(KUBERNETES)
    known = json.loads((folder / "api/openapi-spec/swagger.json").read_text())["definitions"]
    kinds: dict[str, Any] = {}
    for name, definition in KINDS.items():
        version, _, kind = name.rpartition("/")
        kinds[name] = with_identity(strict(known[definition]), version, kind)
    for module, paths in CRDS.items():
        folder = folder_of(module)
        kinds.update(found for path in paths for found in of_a_crd(folder / path))
    definitions: dict[str, Any] = {}
    waiting = [*references(kinds), METADATA]
    while waiting:
        if (name := waiting.pop()) not in definitions:
            definitions[name] = strict(known[name])
            waiting += references(definitions[name])
    # Kubernetes' document says "string" of these two, which take numbers also.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = INT_OR_STRING
    text = json.dumps({"sources": [KUBERNETES, *CRDS], "kinds": kinds, "definitions": definitions}, sort_keys=True)
    SCHEMAS.write_text(text + "\n")


if __name__ == "__main__":
    main()
