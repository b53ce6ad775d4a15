"""A custom resource that makes a deployment fail when the deployed lease worker cannot import its handler.

Ours, and not the CDK's: a Trigger cannot give the function an event, so the worker would be asked for a window without an
item; custom_resources.Provider puts a function of its own, in Node, before ours, to do what the last lines of
functions/deployment_check/app.py do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from aws_cdk import CfnResource, CustomResource, Duration, FileSystem, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from sublet.settings import Settings
from sublet_cdk import roles
from sublet_cdk.functions import FunctionShape, FunctionSize, Own, add_function, plain_asset
from sublet_cdk.shipped import shipped

CODE = shipped("functions/deployment_check")


def add_deployment_check(
    scope: Construct, worker: lambda_.Function, code: Sequence[Path], settings: Settings, shape: FunctionShape
) -> CustomResource:
    """Checks at every deployment that changes the worker's `code` or its settings, which are part of the
    resource.
    """
    invoke = {"invoke": roles.allow(["lambda:InvokeFunction"], worker.function_arn)}
    own = {"URL_SUFFIX": Stack.of(scope).url_suffix}
    bare = replace(shape, layers=(), environment=None, tracing=lambda_.Tracing.DISABLED)
    check = add_function(
        scope,
        "DeploymentCheck",
        bare,
        FunctionSize(256, Duration.seconds(90)),
        plain_asset(CODE),
        invoke,
        Own(own),
    )
    resource = CustomResource(
        scope,
        "HandlerCanBeImported",
        service_token=check.function_arn,
        properties={"Worker": worker.function_name, "Checked": _fingerprint(code, settings)},
    )
    # Without it CloudFormation would wait an hour for a check that died. (An override: CDK writes text where
    # a number belongs.)
    cast("CfnResource", resource.node.default_child).add_property_override("ServiceTimeout", 180)
    return resource


def _fingerprint(code: Sequence[Path], settings: Settings) -> str:
    parts = [FileSystem.fingerprint(str(path), exclude=["**/__pycache__"]) for path in code]
    parts.append(json.dumps(settings.to_environment(), sort_keys=True))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
