"""Deploys the real stack to an embedded AWS with the pinned CDK command line: bootstrap, deploy, destroy."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from sublet.operate.rules.stack_names import consumer_stack

from infra.local.embedded import ACCOUNT, REGION, ROOT
from infra.local.guard import end_group

CDK = ROOT / "node_modules" / ".bin" / "cdk"
"""The CDK is pinned to 2.1148. npm's 3.0.0 is half a year older, and cannot read what aws-cdk-lib 2.275 writes
("Maximum schema version supported is 43.x.x, but found 55.0.0. You need at least CLI version 2.1147.0")."""
BOOTSTRAP_STACK = "CDKToolkit"
BOOTSTRAP_DONE = ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"]
REPORT_TAIL = 30

# The part of our environment that the CDK and its app inherit: no credentials, and nothing about AWS.
INHERITED = (
    "CDK_VALIDATION",
    "HOME",
    "LANG",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
)

# The emulator lacks bootstrap roles, and alarms on metric math.
EMULATOR_CONTEXT = {"cli_credentials": "true", "sublet:metric-math-alarms": "false"}

Report = Callable[[str], None]


class AwsToDeployTo(Protocol):
    """An embedded AWS, or an account: the environment for the CDK's command line, and boto3 clients."""

    @property
    def environment(self) -> Mapping[str, str]: ...
    def client(self, service: str) -> Any: ...


class DeploymentFailed(Exception):
    """The CDK's command line failed; the message ends with its last lines."""


def deploy(
    aws: AwsToDeployTo,
    context: Mapping[str, str],
    *,
    stack: str | None = None,
    folder: Path = ROOT,
    tags: Mapping[str, str] | None = None,
    report: Report = print,
) -> dict[str, str]:
    """Deploy a stack of the app in `folder`, and return its outputs by name. Raises DeploymentFailed.

    Bootstraps first if necessary. The emulator runs functions as processes on this machine, so the layer is for this
    machine's architecture.

    context  passed to the app, each entry with `-c`
    stack    by default, that of the context's application
    tags     of the stack, and so of everything in it
    report   called with each line of progress
    """
    bootstrap(aws, report=report)
    stack = stack or consumer_stack(context["application"])
    with tempfile.TemporaryDirectory(prefix="sublet-cdk-") as scratch:
        outputs = Path(scratch) / "outputs.json"
        command = [
            "deploy",
            stack,
            "--require-approval",
            "never",
            "--outputs-file",
            str(outputs),
            "--progress",
            "events",
        ]
        tagged = [word for name, value in (tags or {}).items() for word in ("--tags", f"{name}={value}")]
        _cdk(aws, [*command, *tagged, *_app_arguments(context, scratch)], report, folder)
        everything: dict[str, dict[str, str]] = json.loads(outputs.read_text())
        return everything.get(stack, {})


def destroy(
    aws: AwsToDeployTo, context: Mapping[str, str], *, stack: str | None = None, report: Report = print
) -> None:
    """Delete `stack`; what it retains stays. Takes the context that it was deployed with. Raises DeploymentFailed."""
    with tempfile.TemporaryDirectory(prefix="sublet-cdk-") as scratch:
        stack = stack or consumer_stack(context["application"])
        _cdk(aws, ["destroy", stack, "--force", *_app_arguments(context, scratch)], report)


def bootstrap(aws: AwsToDeployTo, *, report: Report = print) -> None:
    """`cdk bootstrap`, unless this embedded AWS has been bootstrapped."""
    existing = aws.client("cloudformation").list_stacks(StackStatusFilter=BOOTSTRAP_DONE)
    if any(each["StackName"] == BOOTSTRAP_STACK for each in existing["StackSummaries"]):
        return
    with tempfile.TemporaryDirectory(prefix="sublet-cdk-") as scratch:
        # Outside the project, so that the app in cdk.json is not run.
        _cdk(
            aws,
            ["bootstrap", f"aws://{ACCOUNT}/{aws.environment.get('AWS_REGION', REGION)}"],
            report,
            folder=Path(scratch),
        )


def _app_arguments(context: Mapping[str, str], scratch: str) -> list[str]:
    architecture = "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64"
    everything = {"architecture": architecture, **EMULATOR_CONTEXT, **context}
    pairs = [word for name, value in everything.items() for word in ("--context", f"{name}={value}")]
    return [*pairs, "--output", str(Path(scratch) / "cdk.out")]


def _cdk(aws: AwsToDeployTo, arguments: list[str], report: Report, folder: Path = ROOT) -> None:
    command = [str(CDK), *arguments, "--no-notices", "--no-color"]
    environment = {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        **aws.environment,
        "CI": "true",  # prints lines instead of a moving display, and to standard output
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",  # Node versions that the CDK still runs on
        "NODE_NO_WARNINGS": "1",
    }
    last: deque[str] = deque(maxlen=REPORT_TAIL)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # can be ended as a group: a shell, the app, two of Node
    ) as cdk:
        assert cdk.stdout is not None
        try:
            for line in cdk.stdout:
                if text := line.rstrip():
                    last.append(text)
                    report(text)
        except BaseException:
            end_group(cdk)
            raise
    if cdk.returncode:
        tail = "\n".join(f"    | {line}" for line in last)
        raise DeploymentFailed(f"cdk {arguments[0]} ended with {cdk.returncode}. Its last lines:\n{tail}")
