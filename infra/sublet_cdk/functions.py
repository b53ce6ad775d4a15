"""Creates our Lambda functions. All have an explicit role, a log group with a retention, and two layers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import jsii
from aws_cdk import Duration, FileSystem, Size, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct, IValidation
from sublet.errors import SettingsError
from sublet_cdk import roles
from sublet_cdk.bytecode import python_of_version
from sublet_cdk.code_folder import EXCLUDE
from sublet_cdk.dependencies import LAYER, built_with_bytecode
from sublet_cdk.log_groups import LogKeeping, add_log_group
from sublet_cdk.metrics_export import METRICS
from sublet_cdk.nag import acknowledge
from sublet_cdk.wheels import Platform

RUNTIME = lambda_.Runtime.PYTHON_3_13
LAYERS_MAX = 5
"""How many layers a function may have (Lambda). Two are ours."""

ENVIRONMENT_MAX = 4096
"""Lambda's quota for a function's variables, in bytes."""
KNOWN_LATER = "x" * 60

OLD_LINUX = {"3.11"}
"""Python versions that Lambda runs on Amazon Linux 2; newer ones are on Amazon Linux 2023, with glibc 2.34."""


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """What the functions of a consumer have in common."""

    application: str
    architecture: lambda_.Architecture
    log_keeping: LogKeeping
    layers: Sequence[lambda_.ILayerVersion] = ()
    environment: Mapping[str, str] | None = None
    runtime: lambda_.Runtime = RUNTIME
    tracing: lambda_.Tracing = lambda_.Tracing.DISABLED


@dataclass(frozen=True, slots=True)
class FunctionSize:
    """A function's size. `memory`: in MiB; `concurrency`: reserved, None for none; `storage`: of /tmp, None for 512
    MiB.
    """

    memory: int
    timeout: Duration
    concurrency: int | None = None
    storage: Size | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """A function's place in a VPC: by default the private subnets and a new security group."""

    vpc: ec2.IVpc
    security_groups: Sequence[ec2.ISecurityGroup] | None = None
    subnets: ec2.SubnetSelection | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """The properties of one function that others do not have."""

    variables: Mapping[str, str] | None = None
    layers: Sequence[lambda_.ILayerVersion] = ()
    role: iam.IRole | None = None
    network: Network | None = None


def add_function(
    scope: Construct,
    name: str,
    shape: FunctionShape,
    size: FunctionSize,
    code: lambda_.Code,
    duties: Mapping[str, iam.PolicyStatement | None],
    own: Own | None = None,
) -> lambda_.Function:
    """Adds a function that may do its `duties` and write its own log, and nothing else."""
    own = own or Own()
    log = add_log_group(scope, f"{name}Log", shape.log_keeping)
    duties = {**duties, "log": roles.write_log(log.log_group_arn)}
    if own.network is not None:
        duties["network"] = roles.allow(roles.LAMBDA_ON_NETWORK, "*")
    role = own.role or roles.role_of(scope, f"{name}Role", "lambda.amazonaws.com", duties)
    network = own.network
    function = lambda_.Function(
        scope,
        name,
        description=f"sublet: {name} of {shape.application}",
        code=code,
        handler="app.lambda_handler",
        runtime=shape.runtime,
        architecture=shape.architecture,
        layers=[*shape.layers, *own.layers],
        environment={**(shape.environment or {}), **(own.variables or {})},
        role=role,
        log_group=log,
        memory_size=size.memory,
        ephemeral_storage_size=size.storage,
        timeout=size.timeout,
        reserved_concurrent_executions=size.concurrency,
        tracing=shape.tracing,
        vpc=network.vpc if network else None,
        vpc_subnets=network.subnets if network else None,
        security_groups=list(network.security_groups) if network and network.security_groups else None,
    )
    _check_variables(function)
    acknowledge(function, "L1", "The dependencies layer is built for this Python, and the library is tested with it")
    permitted: list[IConstruct] = [role]
    if own.role is not None:
        policy = roles.add_duties(scope, f"{name}Duties", own.role, duties)
        function.node.add_dependency(policy)
        permitted.append(policy)
    if own.network is not None or shape.tracing is not lambda_.Tracing.DISABLED or METRICS in duties:
        for each in permitted:
            acknowledge(each, "IAM5[Resource::*]", "Network interfaces, traces and metrics have no names or ARNs")
    return function


def _check_variables(function: lambda_.Function) -> None:
    """Checks the variables now, and those that are added later when the template is written."""
    if problem := environment_problem(function):
        raise SettingsError(*problem)
    function.node.add_validation(_VariablesFit(function))


@jsii.implements(IValidation)
class _VariablesFit:
    def __init__(self, function: lambda_.Function) -> None:
        self.function = function

    def validate(self) -> list[str]:
        problem = environment_problem(self.function)
        return [str(SettingsError(*problem))] if problem else []


def environment_problem(function: lambda_.Function) -> tuple[str, str, str] | None:
    """Returns the SettingsError's arguments if the variables are too large. Lambda measures them as one JSON text, in
    which each quotation mark of `filter_criteria` counts twice. A value that is known only at deployment, such as an
    ARN, counts as a few bytes."""
    made = cast("lambda_.CfnFunction", function.node.default_child)
    properties = Stack.of(function).resolve(made._cfn_properties)  # noqa: SLF001 -- jsii's name for a protected property
    variables = properties.get("environment", {}).get("variables", {})
    texts = {name: value if isinstance(value, str) else KNOWN_LATER for name, value in variables.items()}
    size = len(json.dumps(texts, separators=(",", ":"), ensure_ascii=False).encode())
    if size <= ENVIRONMENT_MAX:
        return None
    largest = sorted(texts, key=lambda name: -len(texts[name]))[:3]
    named = ", ".join(f"{name} {len(texts[name]):,}" for name in largest)
    allowed = f"at most {ENVIRONMENT_MAX:,} in all variables of a function, settings included, as JSON (Lambda)"
    return "worker_environment", f"{size:,} bytes", f"{allowed}; the largest: {named}"


def check_runtime(runtime: lambda_.Runtime) -> None:
    """Raises SettingsError for a runtime that the library's layers do not support."""
    if python_of(runtime) not in LAYER.python_versions:
        allowed = ", ".join(f"python{version}" for version in LAYER.python_versions)
        raise SettingsError("runtime", runtime.name, f"one of {allowed}")


def python_of(runtime: lambda_.Runtime) -> str:
    return runtime.name.removeprefix("python")


def platform_of(runtime: lambda_.Runtime, architecture: lambda_.Architecture) -> Platform:
    version = python_of(runtime)
    glibc = "manylinux2014" if version in OLD_LINUX else "manylinux_2_28"
    return Platform(architecture.name, version, glibc)


def compiled_asset(folder: Path, python_version: str) -> lambda_.AssetCode:
    """Returns a folder's asset, with bytecode if possible. Its hash is that of the sources, because the same code may
    compile to different bytes."""
    sources = FileSystem.fingerprint(str(folder), exclude=EXCLUDE)
    compiled = python_version if python_of_version(python_version) else "sources"
    return lambda_.Code.from_asset(str(folder), asset_hash=f"{sources}-{compiled}")


def plain_asset(folder: Path) -> lambda_.AssetCode:
    """Returns a folder's asset with its sources only."""
    return lambda_.Code.from_asset(str(folder), exclude=EXCLUDE)


def add_layers(
    scope: Construct,
    architecture: lambda_.Architecture,
    runtime: lambda_.Runtime,
    library: Path,
    dependencies: lambda_.ILayerVersion | str | Path | None,
) -> list[lambda_.ILayerVersion]:
    """The layers of the library and of its dependencies. The latter is a layer version, a folder, or by default built
    from the locked wheels."""
    own = _layer(scope, "Library", architecture, runtime, compiled_asset(library, python_of(runtime)), "sublet")
    if dependencies is not None and not isinstance(dependencies, str | Path):
        return [own, dependencies]
    what = "What sublet depends on, but for boto3, which Lambda has"
    if dependencies:
        code = plain_asset(_layer_folder(Path(dependencies)))
    else:
        version = python_of(runtime)
        code = compiled_asset(built_with_bytecode(LAYER, architecture.name, version), version)
    return [own, _layer(scope, "Dependencies", architecture, runtime, code, what)]


def _layer_folder(folder: Path) -> Path:
    if not (folder / "python").is_dir():
        raise SettingsError("dependencies_layer", str(folder), "a layer's folder, with `python` in it")
    return folder


def _layer(
    scope: Construct,
    name: str,
    architecture: lambda_.Architecture,
    runtime: lambda_.Runtime,
    code: lambda_.Code,
    description: str,
) -> lambda_.LayerVersion:
    return lambda_.LayerVersion(
        scope,
        name,
        code=code,
        compatible_runtimes=[runtime],
        compatible_architectures=[architecture],
        description=description,
    )
