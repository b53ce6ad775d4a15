"""When `sublet deploy` takes AWS for this machine's, and what it does otherwise there."""

from __future__ import annotations

import pytest
from sublet.operate.rules.local_aws import by_address, local_deployment, local_endpoint


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({}, None),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}, "http://127.0.0.1:4566"),
        ({"AWS_ENDPOINT_URL": "http://localhost:4566"}, "http://localhost:4566"),
        ({"AWS_ENDPOINT_URL": "http://[::1]:4566"}, "http://[::1]:4566"),
        ({"AWS_ENDPOINT_URL": "https://vpce-1.cloudformation.eu-west-1.vpce.amazonaws.com"}, None),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_CLOUDFORMATION": "https://example.com"}, None),
        ({"AWS_ENDPOINT_URL_KINESIS": "http://127.0.0.1:1"}, None),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, None),
    ],
)
def test_aws_is_local_where_cloudformation_is_on_loopback(environment: dict[str, str], endpoint: str | None) -> None:
    assert local_endpoint(environment) == endpoint


def test_deployment_is_told_what_emulators_lack_and_says_each() -> None:
    local = local_deployment({}, (), "aarch64")
    assert local.context == {"cli_credentials": "true", "architecture": "arm64"}
    assert local.options == ("--require-approval", "never", "--context", "sublet:metric-math-alarms=false")
    assert len(local.why) == 4


def test_deployment_keeps_what_is_stated() -> None:
    given = ("--require-approval=broadening", "-c", "sublet:metric-math-alarms=true")
    local = local_deployment({"cli_credentials": "false", "architecture": "x86_64"}, given, "aarch64")
    assert local == ({}, (), ())


def test_name_of_this_machine_becomes_its_address() -> None:
    given = {"AWS_ENDPOINT_URL": "http://localhost:4566", "AWS_ENDPOINT_URL_S3": "http://10.0.0.1", "HOME": "/home"}
    assert by_address(given) == {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
