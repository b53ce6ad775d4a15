"""What `sublet deploy` tells the stack of what the account has: tables to continue with, how much watches it, and a
dashboard's name.

CloudFormation creates no table whose name exists. So a stack must be told of the tables that a process has made, or
that an earlier stack has left; and it must not be told of its own, since it would let go of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sublet.errors import SettingsError
from sublet.operate.rules import stack_names
from sublet.settings.value import SIGHTINGS_SUFFIX

RUNTIME = "lambda"
DASHBOARD, ALARM = "AWS::CloudWatch::Dashboard", "AWS::CloudWatch::Alarm"
FULL, LEAN, NONE = "full", "lean", "none"
"""The levels of `monitoring`, which are the construct's."""


class FoundTable(NamedTuple):
    """`stack`: the one that it belongs to; None if to none."""

    exists: bool
    stack: str | None = None


class Found(NamedTuple):
    """What the account has of an application, in the region of its stack.

    tables         by name
    own_dashboard  of the application's stack, if it has deployed one
    is_taken       the dashboard of the application's plain name is another stack's, or nobody's
    monitoring     how much watches the application's stack; None if there is no such stack
    """

    region: str
    tables: Mapping[str, FoundTable]
    own_dashboard: str | None = None
    is_taken: bool = False
    monitoring: str | None = None


class Adopted(NamedTuple):
    """`context`: the app's, in addition to what is stated. `why`: a line for each key."""

    context: Mapping[str, str]
    why: tuple[str, ...]


def table_keys(application: str) -> dict[str, str]:
    """The context keys that say a table exists, with its name."""
    return {
        "existing_lease_table": application,
        "existing_sightings_table": f"{application}{SIGHTINGS_SUFFIX}",
    }


def monitoring_of(types: Collection[str]) -> str | None:
    """The level of a stack with resources of these types; None for a stack without any, which is a new one."""
    if not types:
        return None
    return FULL if DASHBOARD in types else LEAN if ALARM in types else NONE


def adopt(application: str, stated: Mapping[str, str], found: Found) -> Adopted:
    """Raises SettingsError for a table of another stack, unless it is stated that the application continues with it."""
    context, why = {}, []
    for key, name in table_keys(application).items():
        table = found.tables[name]
        own = table.stack == stack_names.consumer_stack(application)
        if key in stated or own or not table.exists:
            continue
        if table.stack is not None:
            raise SettingsError(
                key,
                None,
                f"true, to share the table {name} with the stack {table.stack}, which owns it; or another application",
            )
        context[key] = "true"
        why.append(f"the table {name} exists, and belongs to no stack: this one continues with it ({key}=true)")
    if "monitoring" not in stated:
        new = FULL if "dashboard_name" in stated else LEAN
        context["monitoring"] = found.monitoring or new
        why.append(_why_monitoring(found.monitoring, new))
    if dashboard := _dashboard(application, {**stated, **context}, found):
        context["dashboard_name"] = dashboard
        why.append(f"the dashboard is {dashboard} (dashboard_name)")
    return Adopted(context, tuple(why))


def _why_monitoring(deployed: str | None, new: str) -> str:
    if deployed is None and new == FULL:
        return "monitoring=full, since the stack is new and has a dashboard (dashboard_name)"
    if deployed is None:
        return "monitoring=lean, since the stack is new: for every alarm and a dashboard, --set monitoring=full"
    cheaper = "; --set monitoring=lean watches it for less than $3 a month" if deployed == FULL else ""
    return f"the stack keeps monitoring={deployed}{cheaper}"


def _dashboard(application: str, stated: Mapping[str, str], found: Found) -> str | None:
    """None for the plain name."""
    if "dashboard_name" in stated or stated["monitoring"] != FULL:
        return None
    if found.own_dashboard is not None:
        return None if found.own_dashboard == stack_names.dashboard(application) else found.own_dashboard
    return stack_names.second_dashboard(application, found.region, RUNTIME) if found.is_taken else None
