"""Which region, profile, role and endpoint a client uses, where boto3's defaults do not apply. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A role to assume. No message of ours contains the external id."""

    arn: str
    session_name: str
    external_id: str | None = field(default=None, repr=False)
    sts_endpoint_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccess:
    """How to reach one service. boto3 fills in what is None, from `AWS_DEFAULT_REGION`, `AWS_PROFILE` or the
    machine's role.

    role   assumed with the profile's credentials, or with the process' own
    """

    region: str | None = None
    endpoint_url: str | None = None
    profile: str | None = None
    role: Role | None = None
