"""A client whose credentials are an assumed role's: assumed when it is needed, and again before they expire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
from sublet.aws.access import Access, Role
from sublet.aws.assumed_roles import connection_of, session_of
from sublet.aws.clients import kinesis_client
from sublet.errors import AwsNotConfigured

ARN = "arn:aws:iam::123456789012:role/orders-reader"
GIVEN = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>{until}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
DENIED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"""


class Sts(ThreadingHTTPServer):
    """Gives credentials for so long; what it was asked."""

    def __init__(self, lasts: timedelta | None) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.lasts, self.asked = lasts, list[dict[str, str]]()


class Answer(BaseHTTPRequestHandler):
    server: Sts

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append({name: values[0] for name, values in parse_qs(body).items()})
        until = datetime.now(UTC) + (self.server.lasts or timedelta(0))
        text = (
            DENIED
            if self.server.lasts is None
            else GIVEN.format(number=len(self.server.asked), until=until.isoformat())
        )
        self.send_response(403 if self.server.lasts is None else 200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def sts(lasts: timedelta | None) -> Iterator[tuple[Sts, Access]]:
    with Sts(lasts) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        role = Role(arn=ARN, session_name="audit", external_id="e-7", sts_endpoint_url=url)
        yield server, Access(region="eu-west-1", role=role)
        server.shutdown()


@pytest.fixture(autouse=True)
def own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")


def key_of(session: Any) -> str:
    return str(session.get_credentials().get_frozen_credentials().access_key)


def test_the_role_is_assumed_once_for_as_long_as_it_lasts() -> None:
    with sts(timedelta(hours=1)) as (server, access):
        session = session_of(access)
        assert server.asked == [], "not before it is needed"
        assert [key_of(session) for _ in range(3)] == ["ASIA1"] * 3
        [asked] = server.asked
        assert (asked["RoleArn"], asked["RoleSessionName"], asked["ExternalId"]) == (ARN, "audit", "e-7")


def test_it_is_assumed_again_before_it_expires() -> None:
    """botocore wants ten minutes left at least."""
    with sts(timedelta(minutes=9)) as (_, access):
        session = session_of(access)
        assert [key_of(session) for _ in range(3)] == ["ASIA1", "ASIA2", "ASIA3"]


def test_a_role_that_may_not_be_assumed_is_named_without_the_external_id() -> None:
    with (
        sts(None) as (_, access),
        pytest.raises(AwsNotConfigured, match=f"role {ARN} cannot be assumed.*trust policy") as said,
    ):
        kinesis_client(*connection_of(access)).list_streams()
    assert "e-7" not in str(said.value)


def test_without_a_role_the_credentials_are_the_process_own() -> None:
    assert key_of(session_of(Access(region="eu-west-1"))) == "AKIAOWN"
