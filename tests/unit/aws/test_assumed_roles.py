"""A client with an assumed role's credentials: assumed when needed, and again before they expire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sublet.aws.assumed_roles import connection_of, session_of
from sublet.aws.clients import kinesis_client
from sublet.aws.service_access import Role, ServiceAccess
from sublet.errors import AwsNotConfigured

from tests.doubles.sts import Sts, sts

ARN = "arn:aws:iam::123456789012:role/orders-reader"
PROFILES = f"""
[profile audit]
region = eu-west-1
role_arn = {ARN}
external_id = e-7
source_profile = own
[profile own]
aws_access_key_id = AKIAOWN
aws_secret_access_key = s
"""


@contextmanager
def role_of(lasts: timedelta | None) -> Iterator[tuple[Sts, ServiceAccess]]:
    with sts(lasts) as server:
        role = Role(arn=ARN, session_name="audit", external_id="e-7", sts_endpoint_url=server.url)
        yield server, ServiceAccess(region="eu-west-1", role=role)


@pytest.fixture(autouse=True)
def own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")


def key_of(session: Any) -> str:
    return str(session.get_credentials().get_frozen_credentials().access_key)


def test_the_role_is_assumed_once_for_as_long_as_it_lasts() -> None:
    with role_of(timedelta(hours=1)) as (server, access):
        session = session_of(access)
        assert server.asked == [], "not before it is needed"
        assert [key_of(session) for _ in range(3)] == ["ASIA1"] * 3
        [asked] = server.asked
        assert (asked["RoleArn"], asked["RoleSessionName"], asked["ExternalId"]) == (ARN, "audit", "e-7")


def test_role_is_assumed_again_before_it_expires() -> None:
    """botocore wants at least ten minutes left."""
    with role_of(timedelta(minutes=9)) as (_, access):
        session = session_of(access)
        assert [key_of(session) for _ in range(3)] == ["ASIA1", "ASIA2", "ASIA3"]


def test_a_role_that_may_not_be_assumed_is_named_without_the_external_id() -> None:
    with (
        role_of(None) as (_, access),
        pytest.raises(AwsNotConfigured, match=f"role {ARN} cannot be assumed.*trust policy") as said,
    ):
        kinesis_client(*connection_of(access)).list_streams()
    assert "e-7" not in str(said.value)


def test_session_without_a_role_has_the_processs_credentials() -> None:
    assert key_of(session_of(ServiceAccess(region="eu-west-1"))) == "AKIAOWN"


def test_a_profile_may_assume_the_role_and_say_the_external_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """boto3's own way: it needs no option, and is in no plan of Spark's."""
    config = tmp_path / "config"
    config.write_text(PROFILES)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with sts(timedelta(hours=1)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        assert key_of(session_of(ServiceAccess(profile="audit"))) == "ASIA1"
    [asked] = server.asked
    assert (asked["RoleArn"], asked["ExternalId"]) == (ARN, "e-7")
