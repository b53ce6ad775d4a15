"""IAM's limits on a role's policies, and which duties go into managed policies because they are too long.

A consumer that names many streams lists each one's ARN, twice with fan-out. IAM takes 10,240 characters of inline
policies for a role, over all of them, and refuses the rest at deployment. A managed policy has room for 6,144 of its
own. (IAM's User Guide, "IAM and AWS STS quotas"; both without white space.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsii
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct, IValidation
from sublet.errors import SettingsError
from sublet_cdk.template_text_lengths import json_length

INLINE_MAX = 10_240
MANAGED_MAX = 6_144
MANAGED_COUNT = 10
"""How many managed policies a role may have, unless the account's quota is raised."""
KEPT_FREE = 2_048
"""Characters that stay free for what an application grants its functions, such as `table.grant_write_data`."""

Duties = Mapping[str, iam.PolicyStatement | None]


def fit(scope: Construct, duties: Duties) -> tuple[dict[str, iam.PolicyStatement], list[iam.PolicyStatement]]:
    """Returns the duties that fit into inline policies, by name, and the statements for managed policies, one each: the
    longest duties, cut by their resources. Raises SettingsError if these are too many.
    """
    inline = {duty: statement for duty, statement in duties.items() if statement is not None}
    sizes = {duty: size_of(scope, [statement]) for duty, statement in inline.items()}
    managed: list[iam.PolicyStatement] = []
    while sum(sizes[duty] for duty in inline) > INLINE_MAX - KEPT_FREE:
        longest = max(inline, key=lambda duty: sizes[duty])
        managed += cut(scope, inline.pop(longest))
    if len(managed) > MANAGED_COUNT:
        raise SettingsError(
            "streams",
            f"{sum(sizes.values()):,} characters of permissions",
            f"at most {INLINE_MAX - KEPT_FREE + MANAGED_COUNT * MANAGED_MAX:,}, which IAM takes for one role: choose "
            "the streams by a pattern (orders-*) or a tag (tag:team=billing), or divide them among applications",
        )
    return inline, managed


def cut(scope: Construct, statement: iam.PolicyStatement) -> list[iam.PolicyStatement]:
    """Returns the statement's like with a part of its resources each, as many as fit into a managed policy."""
    bare = size_of(scope, [_like(statement, [])])
    parts: list[list[str]] = [[]]
    room = MANAGED_MAX - bare
    for resource in statement.resources:
        size = json_length(scope, resource) + 1
        if parts[-1] and size > room:
            parts.append([])
            room = MANAGED_MAX - bare
        parts[-1].append(resource)
        room -= size
    return [_like(statement, part) for part in parts]


def size_of(scope: Construct, statements: Sequence[iam.PolicyStatement]) -> int:
    """Returns the length of a policy with these statements as IAM counts it, at the most: its intrinsics resolved."""
    listed = [statement.to_statement_json() for statement in statements]
    return json_length(scope, {"Version": "2012-10-17", "Statement": listed})


def check_inline(role: iam.IRole) -> None:
    """Lets synth refuse a role whose inline policies are too long, with what was granted to it later."""
    role.node.add_validation(_InlineFits(role))


@jsii.implements(IValidation)
class _InlineFits:
    def __init__(self, role: iam.IRole) -> None:
        self.role = role

    def validate(self) -> list[str]:
        size = inline_size(self.role)
        if size <= INLINE_MAX:
            return []
        way_out = "put what you grant it into an iam.ManagedPolicy, or give the construct a role of yours"
        allowed = f"at most {INLINE_MAX:,}, which IAM takes for one role: {way_out}"
        return [str(SettingsError(self.role.node.path, f"{size:,} characters of inline policies", allowed))]


def inline_size(role: iam.IRole) -> int:
    """Returns the length of all inline policies in the role's template, those that were granted later too."""
    resources = [each for each in role.node.find_all() if isinstance(each, iam.CfnRole | iam.CfnPolicy)]
    return sum(json_length(each, document) for each in resources for document in _documents(each))


def _documents(resource: Any) -> Iterator[Any]:
    properties = Stack.of(resource).resolve(resource._cfn_properties)  # noqa: SLF001 -- jsii's name for a protected property
    yield from (each["policyDocument"] for each in properties.get("policies", ()))
    if "policyDocument" in properties:
        yield properties["policyDocument"]


def _like(statement: iam.PolicyStatement, resources: Sequence[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=statement.actions, resources=list(resources), conditions=statement.conditions or None
    )
