"""Whose credentials a client uses, where that is said and not left to boto3: a named profile, a role to assume. Values alone."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role to assume. The external id is in no message of ours."""

    arn: str
    session_name: str
    external_id: str | None = field(default=None, repr=False)
    sts_endpoint_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The way to one service. boto3 finds what is None: in `AWS_DEFAULT_REGION`, `AWS_PROFILE`, the machine's role.

    role   assumed with the profile's credentials, or with the process' own
    """

    region: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    role: Role | None = None
