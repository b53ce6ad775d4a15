"""Lambda functions as all of ours are: an explicit role, a log group with a retention, two layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from sublet.errors import SettingsError
from sublet_cdk import roles
from sublet_cdk.dependencies import LAYER, built
from sublet_cdk.handler_asset import NOT_SHIPPED
from sublet_cdk.nag import acknowledge

RUNTIME = lambda_.Runtime.PYTHON_3_13
EXCLUDE = [f"**/{pattern}" for pattern in NOT_SHIPPED]


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """What the functions of a consumer have in common."""

    application: str
    architecture: lambda_.Architecture
    log_retention: logs.RetentionDays
    layers: Sequence[lambda_.ILayerVersion] = ()
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class FunctionSize:
    """`memory` in MiB; `concurrency` is what is reserved, None for nothing."""

    memory: int
    timeout: Duration
    concurrency: int | None = None


def add_function(
    scope: Construct,
    name: str,
    shape: FunctionShape,
    size: FunctionSize,
    code: Path,
    duties: Mapping[str, iam.PolicyStatement | None],
    own_variables: Mapping[str, str] | None = None,
) -> lambda_.Function:
    """A function that may do its `duties` and write its own log, and nothing else."""
    log = logs.LogGroup(
        scope, f"{name}Log", retention=shape.log_retention, removal_policy=RemovalPolicy.DESTROY
    )
    duties = {**duties, "log": roles.write_log(log.log_group_arn)}
    function = lambda_.Function(
        scope,
        name,
        description=f"sublet: {name} of {shape.application}",
        code=lambda_.Code.from_asset(str(code), exclude=EXCLUDE),
        handler="app.lambda_handler",
        runtime=RUNTIME,
        architecture=shape.architecture,
        layers=list(shape.layers),
        environment={**(shape.environment or {}), **(own_variables or {})},
        role=roles.role_of(scope, f"{name}Role", "lambda.amazonaws.com", duties),
        log_group=log,
        memory_size=size.memory,
        timeout=size.timeout,
        reserved_concurrent_executions=size.concurrency,
    )
    acknowledge(
        function, "L1", "Python 3.13: what the dependencies layer is built for and the library is tested with"
    )
    return function


def add_layers(
    scope: Construct,
    architecture: lambda_.Architecture,
    library: Path,
    dependencies: lambda_.ILayerVersion | str | Path | None,
) -> list[lambda_.ILayerVersion]:
    """The library's layer and its dependencies': a layer version, the folder of one, or by default the locked wheels."""
    own = _layer(scope, "Library", architecture, library, "sublet")
    if dependencies is not None and not isinstance(dependencies, str | Path):
        return [own, dependencies]
    folder = Path(dependencies) if dependencies else built(LAYER, architecture.name)
    if not (folder / "python").is_dir():
        raise SettingsError("dependencies_layer", str(folder), "a layer's folder, with `python` in it")
    what = "What sublet depends on, but for boto3, which Lambda has"
    return [own, _layer(scope, "Dependencies", architecture, folder, what)]


def _layer(
    scope: Construct, name: str, architecture: lambda_.Architecture, folder: Path, description: str
) -> lambda_.LayerVersion:
    return lambda_.LayerVersion(
        scope,
        name,
        code=lambda_.Code.from_asset(str(folder), exclude=EXCLUDE),
        compatible_runtimes=[RUNTIME],
        compatible_architectures=[architecture],
        description=description,
    )
