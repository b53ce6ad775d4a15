"""A whole AWS on this machine's loopback: kinesis-local for Kinesis, ministack for everything else. No Docker.

Two emulators, because only kinesis-local reshards as Kinesis does (closed parents keep their records, their iterators
end with ChildShards), and only ministack runs Lambda, Step Functions, EventBridge, IAM and CloudFormation together.
boto3 and the CDK's command line find both by the endpoint variables in `EmbeddedAws.environment`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from sublet.aws.account import AwsAccount
from sublet.aws.clients import Connection

from infra.local.server import Server, ServerFailed, running

ROOT = Path(__file__).resolve().parents[2]
MINISTACK = ROOT / ".local" / "ministack" / "bin" / "python"
KINESIS_LOCAL = ROOT / "node_modules" / "kinesis-local"
SIGNED_MINISTACK = Path(__file__).with_name("signed_ministack.py")
SIGNED_KINESIS = Path(__file__).with_name("signed_kinesis.cjs")
LOOPBACK = Path(__file__).with_name("loopback.cjs")
HOST = "127.0.0.1"
ACCOUNT = "000000000000"
REGION = "us-east-1"

# How long kinesis-local takes to create or reshard a stream. Its default is half a second each.
DURATIONS = (
    *("CREATE_STREAM_DURATION", "DELETE_STREAM_DURATION", "SPLIT_SHARD_DURATION", "MERGE_SHARDS_DURATION"),
    *("UPDATE_SHARD_COUNT_DURATION", "UPDATE_STREAM_MODE_DURATION", "REGISTER_STREAM_CONSUMER_DURATION"),
    *(
        "DEREGISTER_STREAM_CONSUMER_DURATION",
        "START_STREAM_ENCRYPTION_DURATION",
        "STOP_STREAM_ENCRYPTION_DURATION",
    ),
)


@dataclass(frozen=True, slots=True)
class EmbeddedAws:
    """A running embedded AWS.

    environment   what to export for boto3, the CDK or the AWS command line. It also hides the user's own credentials
                  and profile, so that nothing can reach a real account.
    servers       the emulators' processes and logs
    """

    environment: Mapping[str, str]
    servers: tuple[Server, ...]

    def in_region(self, region: str) -> EmbeddedAws:
        """The same AWS in another region, which has its own streams, tables, functions and stacks."""
        return replace(self, environment={**self.environment, "AWS_REGION": region, "AWS_DEFAULT_REGION": region})

    def client(self, service: str) -> Any:
        """Returns a boto3 client of `service`, which ignores this process's own environment."""
        endpoint = self.environment["AWS_ENDPOINT_URL_KINESIS" if service == "kinesis" else "AWS_ENDPOINT_URL"]
        create: Any = boto3.session.Session().client  # its stubs accept literal names only
        return create(
            service,
            endpoint_url=endpoint,
            region_name=self.environment["AWS_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(
                connect_timeout=5,
                read_timeout=60,
                retries={"mode": "standard"},
                proxies={},
                s3={"addressing_style": "path"},  # the emulators' buckets have no host names of their own
            ),
        )

    def account(self) -> AwsAccount:
        """The Account port over this AWS, for code that creates its own clients."""
        session = botocore.session.get_session()
        session.set_credentials(self.environment["AWS_ACCESS_KEY_ID"], self.environment["AWS_SECRET_ACCESS_KEY"])
        session.set_default_client_config(Config(proxies={}))
        boto = boto3.session.Session(botocore_session=session)
        return AwsAccount(Connection(REGION, self.environment["AWS_ENDPOINT_URL_KINESIS"], boto))


@contextmanager
def embedded_aws() -> Iterator[EmbeddedAws]:
    """Start an empty AWS on free loopback ports; end it, and its Lambda processes, when the block ends.

    Every request must be signed with its keys, which are new each time, and none may come from a web page, because a
    function here is a process of the user. IAM is enforced: a Lambda function has its role's permissions and no more;
    the environment's own credentials are the account's root.
    Raises ServerFailed, with the end of the log, if an emulator does not start.
    """
    _check_installed()
    gateway, kinesis = free_ports(2)
    environment = environment_for(f"http://{HOST}:{gateway}", f"http://{HOST}:{kinesis}", random_keys())
    base = {**environment, "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    with ExitStack() as stack:
        starts = [
            running(
                "ministack",
                [str(MINISTACK), "-P", str(SIGNED_MINISTACK)],
                {**base, **_ministack_settings(gateway)},
                f"http://{HOST}:{gateway}/_ministack/health",
            ),
            running(
                "kinesis-local",
                [node(), "--require", str(SIGNED_KINESIS), str(KINESIS_LOCAL / "main.js")],
                {**base, **_kinesis_settings(kinesis)},
                f"http://{HOST}:{kinesis}/healthcheck",
            ),
        ]
        with ThreadPoolExecutor(len(starts)) as pool:
            servers = [future.result() for future in [pool.submit(stack.enter_context, start) for start in starts]]
        for server in servers:
            stack.callback(server.end)
        yield EmbeddedAws(environment, tuple(servers))


def free_ports(count: int) -> list[int]:
    """Returns different ports that were free on loopback a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


@dataclass(frozen=True, slots=True)
class Keys:
    """An access key's id and its secret."""

    id: str
    secret: str = field(repr=False)


def random_keys() -> Keys:
    """Returns random keys whose id does not begin with AKIA or ASIA: emulators would read an account number from such
    an id.
    """
    return Keys(f"LOCAL{secrets.token_hex(8).upper()}", secrets.token_hex(20))


def environment_for(gateway: str, kinesis: str, keys: Keys) -> dict[str, str]:
    """Returns what to export to use the emulators at these addresses: see EmbeddedAws."""
    return {
        "AWS_ENDPOINT_URL": gateway,
        "AWS_ENDPOINT_URL_KINESIS": kinesis,
        "AWS_ACCESS_KEY_ID": keys.id,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": f"{HOST},localhost",
    }


def _ministack_settings(gateway: int) -> dict[str, str]:
    return {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(gateway),
        "MINISTACK_HOST": HOST,  # in the URLs that it returns, such as a queue's
        "MINISTACK_REGION": REGION,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "AUTH": "true",
        "LAMBDA_EXECUTOR": "local",
        # Services that we do not use, which would listen on fixed ports.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        # It would look for the containers of other ministacks, to remove them.
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
    }


def _kinesis_settings(port: int) -> dict[str, str]:
    return {
        "ACCOUNT": ACCOUNT,
        "KINESIS_MOCK_PLAIN_PORT": str(port),
        "KINESIS_MOCK_TLS_PORT": "1",  # any other port: signed_kinesis.cjs does not open it
        "KINESIS_MOCK_CERT_PATH": str(KINESIS_LOCAL / "server.json"),
        "SHARD_LIMIT": "500",
        "LOG_LEVEL": "WARN",
        **dict.fromkeys(DURATIONS, "50ms"),
    }


def node() -> str:
    """The machine's Node, or the one that `make setup` installed."""
    own = ROOT / ".local" / "node" / "bin" / "node"
    found = str(own) if own.exists() else shutil.which("node")
    if not found:
        raise ServerFailed("there is no Node: run `make setup` (it installs one where the machine has none)")
    return found


def _check_installed() -> None:
    for needed in (MINISTACK, KINESIS_LOCAL / "main.js"):
        if not needed.exists():
            raise ServerFailed(f"{needed.relative_to(ROOT)} is missing: run `make setup`")
