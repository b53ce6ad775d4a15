"""What `sublet deploy` does otherwise where AWS is an emulator on this machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

ENDPOINTS = ("AWS_ENDPOINT_URL_CLOUDFORMATION", "AWS_ENDPOINT_URL")
"""The variables that say where CloudFormation is, the first that is set. boto3 and the CDK's command line read them."""
IGNORE = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"

EMULATED = frozenset({"000000000000", "123456789012"})
"""The accounts of emulators (ministack's and LocalStack's, moto's). AWS gives them to nobody: the second is that of its
documentation. An address of this machine may also be a tunnel to a real account, and there nothing is assumed."""

MATH_ALARMS = "sublet:metric-math-alarms"
"""The construct's flag (infra/sublet_cdk/alarms.py)."""
APPROVAL = "--require-approval"


class LocalDeployment(NamedTuple):
    """`context`: the app's, in addition to what is stated. `options`: of the CDK's command line. `why`: a line each."""

    context: Mapping[str, str]
    options: tuple[str, ...]
    why: tuple[str, ...]


def local_endpoint(environment: Mapping[str, str]) -> str | None:
    """CloudFormation's endpoint, if it is on this machine's loopback; otherwise None."""
    if environment.get(IGNORE, "").lower() == "true":
        return None
    endpoint = next((environment[name] for name in ENDPOINTS if environment.get(name)), None)
    return endpoint if endpoint is not None and _is_loopback(urlsplit(endpoint).hostname or "") else None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def by_address(environment: Mapping[str, str]) -> dict[str, str]:
    """The endpoints with 127.0.0.1 for localhost: for a name, the CDK would put the bucket's name before it."""
    return {
        name: value.replace("://localhost", "://127.0.0.1", 1)
        for name, value in environment.items()
        if name.startswith("AWS_ENDPOINT_URL") and "://localhost" in value
    }


def local_deployment(stated: Mapping[str, str], cdk: Sequence[str], machine: str) -> LocalDeployment:
    """Whatever is stated stays. `machine`: its architecture as `platform.machine()` names it."""
    architecture = "arm64" if machine.lower() in {"arm64", "aarch64"} else "x86_64"
    context = {
        name: value
        for name, value in {"cli_credentials": "true", "architecture": architecture}.items()
        if name not in stated
    }
    reasons = {
        "cli_credentials": "as the caller, since emulators lack the roles of cdk bootstrap (cli_credentials=true)",
        "architecture": f"functions run on this machine (architecture={architecture})",
    }
    why = [reasons[name] for name in context]
    options: list[str] = []
    if not any(word.startswith(APPROVAL) for word in cdk):
        options += [APPROVAL, "never"]
        why.append(f"without a question about permissions ({APPROVAL} never)")
    if not any(f"{MATH_ALARMS}=" in word for word in cdk):
        options += ["--context", f"{MATH_ALARMS}=false"]
        why.append(f"without alarms on metric math, which emulators refuse ({MATH_ALARMS}=false)")
    return LocalDeployment(context, tuple(options), tuple(why))
