"""A custom resource that fails a deployment if the deployed lease worker cannot import its handler.

Its logical id ends with a fingerprint of everything that could change the result. So every deployment with another
worker creates a new check, and deletes the last one when it has succeeded. A rollback deletes the new check and
leaves the old one alone, so nothing is checked then. A resource that stayed the same would be updated by the rollback
too, and check the restored worker. If that could no longer import its handler (because a table is missing, say), the
stack could not roll back.

We do not use the CDK's own. A Trigger cannot pass an event to the function, so the worker would be invoked for a
window without an item. custom_resources.Provider adds a Node function in front of ours, to do what the last lines of
functions/deployment_check/app.py do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import jsii
from aws_cdk import CfnResource, CustomResource, Duration, IResolveContext, IStringProducer, Lazy, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct
from sublet_cdk import roles
from sublet_cdk.functions import FunctionShape, FunctionSize, Own, add_function, plain_asset
from sublet_cdk.nag import acknowledge
from sublet_cdk.shipped import shipped

CODE = shipped("functions/deployment_check")

TIMEOUT = Duration.minutes(6)
ANSWERED_WITHIN = Duration.minutes(7)
"""How long CloudFormation waits for the check. By default it would wait an hour for one that died."""

DIGITS = 16


def add_deployment_check(
    scope: Construct,
    worker: lambda_.Function,
    layers: Sequence[lambda_.ILayerVersion],
    manager: lambda_.Function,
    first_figures: Sequence[Any],
    shape: FunctionShape,
    *,
    awaits: bool,
) -> CustomResource:
    """Checks at every deployment that changes the `worker`, one of its `layers`, or its role.

    first_figures   metrics that exist if the application has ticked before; if it has none, it is prompted
    awaits          wait for these metrics before the check ends
    """
    duties = {
        "invoke": roles.allow(["lambda:InvokeFunction"], worker.function_arn),
        "prompt": roles.allow(["lambda:InvokeFunction"], manager.function_arn),
        "figures": roles.allow(["cloudwatch:GetMetricData"], "*"),
    }
    own = {"URL_SUFFIX": Stack.of(scope).url_suffix}
    bare = replace(shape, layers=(), environment=None, tracing=lambda_.Tracing.DISABLED)
    check = add_function(
        scope, "DeploymentCheck", bare, FunctionSize(256, TIMEOUT), plain_asset(CODE), duties, Own(own)
    )
    acknowledge(cast("IConstruct", check.role), "IAM5[Resource::*]", "CloudWatch's figures have no ARNs")
    resource = CustomResource(
        scope,
        "HandlerCanBeImported",
        service_token=check.function_arn,
        properties={
            "Worker": worker.function_name,
            "Manager": manager.function_name,
            "Figures": first_figures,
            "Awaits": str(awaits).lower(),
        },
    )
    made = cast("CfnResource", resource.node.default_child)
    # An override, because CDK writes a string instead of a number.
    made.add_property_override("ServiceTimeout", ANSWERED_WITHIN.to_seconds())
    name = Stack.of(scope).resolve(made.logical_id)
    made.override_logical_id(Lazy.uncached_string(_Named(name, worker, layers)))
    return resource


@jsii.implements(IStringProducer)
class _Named:
    """The check's logical id, computed when the template is written: a variable may be added to the worker until
    then.
    """

    def __init__(self, name: str, worker: lambda_.Function, layers: Sequence[lambda_.ILayerVersion]) -> None:
        self.name, self.worker, self.layers = name, worker, layers

    def produce(self, _context: IResolveContext) -> str:
        return f"{self.name}{fingerprint(self.worker, self.layers)}"


def fingerprint(worker: lambda_.Function, layers: Sequence[lambda_.ILayerVersion]) -> str:
    """Returns a hash of everything in the template about the function, its layers, its role and the role's policies."""
    said = []
    for each in (worker, *layers, worker.role):
        for resource in _resources(each):
            stack = Stack.of(resource)
            properties = stack.resolve(resource._cfn_properties)  # noqa: SLF001 -- jsii's name for a protected property
            properties.pop("tags", None)
            said.append([stack.resolve(resource.logical_id), properties])
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _resources(construct: Any) -> Iterator[CfnResource]:
    return (each for each in construct.node.find_all() if isinstance(each, CfnResource))
