"""A boto3 session with the credentials of an assumed role, renewed before they expire."""

from __future__ import annotations

from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials
from botocore.exceptions import ClientError

from sublet.aws.clients import Connection
from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.aws.faults import is_transient
from sublet.aws.service_access import Role, ServiceAccess
from sublet.errors import AwsNotConfigured

_METHOD = "sublet-role"


def connection_of(access: ServiceAccess) -> Connection:
    """The connection that our clients use. Raises AwsNotConfigured."""
    if access.profile is None and access.role is None:
        return Connection(access.region, access.endpoint_url)
    try:
        return Connection(access.region, access.endpoint_url, session_of(access))
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem


def session_of(access: ServiceAccess) -> boto3.Session:
    """Sends no request yet. Raises boto3's error for a missing profile."""
    own = boto3.Session(profile_name=access.profile, region_name=access.region)
    if access.role is None:
        return own
    session = botocore.session.Session(profile=access.profile)
    resolver = session.get_component("credential_provider")
    resolver.insert_before("env", _AssumedRoleProvider(own, access.role))
    return boto3.Session(botocore_session=session, region_name=access.region)


class _AssumedRoleProvider:
    """The credential provider that botocore tries first."""

    METHOD = _METHOD
    CANONICAL_NAME = None

    def __init__(self, own: boto3.Session, role: Role) -> None:
        self._own = own
        self._role = role

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(refresh_using=self._assume, method=_METHOD)

    def _assume(self) -> dict[str, str]:
        """Raises AwsNotConfigured if the role may not be assumed."""
        role = self._role
        external_id = {} if role.external_id is None else {"ExternalId": role.external_id}
        client: Any = self._own.client(
            "sts",
            endpoint_url=role.sts_endpoint_url,
            config=Config(retries={"mode": "standard", "total_max_attempts": 4}, connect_timeout=3, read_timeout=10),
        )
        try:
            reply = client.assume_role(RoleArn=role.arn, RoleSessionName=role.session_name, **external_id)
        except ClientError as error:
            if is_transient(error):
                raise
            said = error.response.get("Error", {}).get("Message", "")
            raise AwsNotConfigured(
                f"role {role.arn} cannot be assumed: {said}; check its trust policy (who may assume it, with which "
                "external id)"
            ) from None
        given = reply["Credentials"]
        return {
            "access_key": given["AccessKeyId"],
            "secret_key": given["SecretAccessKey"],
            "token": given["SessionToken"],
            "expiry_time": given["Expiration"].isoformat(),
        }
