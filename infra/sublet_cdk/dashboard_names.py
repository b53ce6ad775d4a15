"""The name of an application's dashboard. CloudWatch knows each name once in an account, in whatever region.

The application's first construct in an app has the dashboard `<application>-sublet`, as stacks that are deployed have
it: another name would be another dashboard. Each further one that can be deployed beside the first, in another region
or runtime of the account, adds its region and its runtime.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from aws_cdk import Stack, Token
from constructs import Construct
from sublet.errors import SettingsError
from sublet.operate.rules import stack_names
from sublet_cdk.places import Place, place_of_stack

ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,255}")
NAMED = "sublet:dashboard"
"""The metadata of an app's root: the dashboards that have got a name."""


class Runtime(StrEnum):
    """Where an application runs, as far as its monitoring knows."""

    LAMBDA = "lambda"
    FARGATE = "fargate"
    PROCESS = "process"


def dashboard_name(scope: Construct, application: str, runtime: Runtime, stated: str | None) -> str:
    """Raises SettingsError if CloudWatch allows no dashboard of the `stated` name."""
    if stated is not None:
        if not Token.is_unresolved(stated) and not ALLOWED.fullmatch(stated):
            raise SettingsError("dashboard_name", stated, "up to 255 letters, digits, hyphens and underscores")
        return stated
    root, here = scope.node.root.node, place_of_stack(scope)
    earlier = [entry.data for entry in root.metadata if entry.type == NAMED]
    if any(each["application"] == application and _is_beside(each, here, runtime) for each in earlier):
        return stack_names.second_dashboard(application, Stack.of(scope).region, runtime)
    root.add_metadata(NAMED, {"application": application, "runtime": runtime.value, **here._asdict()})
    return stack_names.dashboard(application)


def _is_beside(first: dict[str, Any], here: Place, runtime: Runtime) -> bool:
    """True if both can be deployed to one account. Two of one runtime in one region cannot: their other names are equal
    too, so they are of different accounts."""
    there = Place(first.get("region"), first.get("account"))
    is_same_account = there.account is None or here.account is None or there.account == here.account
    is_other_region = there.region is not None and here.region is not None and there.region != here.region
    return is_same_account and (is_other_region or first["runtime"] != runtime.value)
