"""A web page, or another user of this machine, that finds the ports of `make local` can do nothing with them.

A function of the embedded AWS is a process of the user who started it, so creating one means running code as that
user. A page can send a `text/plain` POST to any loopback port without a preflight, and the server decides what it may
read of the answer.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import shlex
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from infra.local.embedded import REGION, ROOT

pytestmark = pytest.mark.emulator

FOREIGN = {"origin": "https://elsewhere.example"}
FUNCTIONS = "/2015-03-31/functions"
STREAMS = {"x-amz-target": "Kinesis_20131202.ListStreams", "content-type": "application/x-amz-json-1.1"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


@pytest.fixture(scope="module")
def exported() -> Iterator[Mapping[str, str]]:
    """What `make local` prints, while it runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "infra.local"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as local:
        assert local.stdout is not None
        assert local.stderr is not None
        while "It is up" not in (said := local.stderr.readline()):
            assert said, "it ended before it was up"
        lines = iter(local.stdout.readline, "")
        variables: dict[str, str] = {}
        while "NO_PROXY" not in variables:
            name, _, value = next(lines).removeprefix("export ").strip().partition("=")
            variables[name] = "".join(shlex.split(value))
        yield variables
        local.send_signal(signal.SIGINT)


@pytest.fixture
def root(exported: Mapping[str, str]) -> Credentials:
    return Credentials(exported["AWS_ACCESS_KEY_ID"], exported["AWS_SECRET_ACCESS_KEY"])


def test_root_keys_cannot_be_guessed(root: Credentials) -> None:
    assert root.access_key != "test"
    assert len(root.secret_key) == 40


def test_an_unsigned_post_of_a_web_page_makes_no_function(exported: Mapping[str, str]) -> None:
    answer = send(exported["AWS_ENDPOINT_URL"], FUNCTIONS, a_function(), {**FOREIGN, "content-type": "text/plain"})

    assert answer.status == 403
    assert functions(exported) == []


def test_an_unsigned_post_without_an_origin_makes_no_function(exported: Mapping[str, str]) -> None:
    assert send(exported["AWS_ENDPOINT_URL"], FUNCTIONS, a_function()).status == 403
    assert functions(exported) == []


@pytest.mark.parametrize("origin", [{}, FOREIGN], ids=["no origin", "a foreign origin"])
@pytest.mark.parametrize("key", ["test", "000000000000", "the right one"])
def test_a_wrong_secret_makes_no_function(
    exported: Mapping[str, str], root: Credentials, key: str, origin: dict[str, str]
) -> None:
    """For any named key: ministack itself accepts the first two, and a correct one, as root without a check."""
    guessed = Credentials(root.access_key if key == "the right one" else key, "test")
    answer = send(exported["AWS_ENDPOINT_URL"], FUNCTIONS, a_function(), origin, signed_by=guessed, service="lambda")

    assert answer.status == 403
    assert functions(exported) == []


def test_a_key_named_in_the_query_makes_no_function(exported: Mapping[str, str], root: Credentials) -> None:
    """As a page could without a preflight: it needs no header of its own."""
    scope = f"{root.access_key}/20260101/{REGION}/lambda/aws4_request"
    path = f"{FUNCTIONS}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={scope}"
    assert send(exported["AWS_ENDPOINT_URL"], path, a_function(), {"content-type": "text/plain"}).status == 403
    assert functions(exported) == []


@pytest.mark.parametrize("path", ["/_ministack/reset", "/_ministack/config", "/some-bucket/some-key"])
def test_no_other_door_is_open_to_the_unsigned(exported: Mapping[str, str], path: str) -> None:
    assert send(exported["AWS_ENDPOINT_URL"], path, b"{}").status == 403


def test_web_page_is_refused_even_with_the_right_keys(exported: Mapping[str, str], root: Credentials) -> None:
    gateway, kinesis = exported["AWS_ENDPOINT_URL"], exported["AWS_ENDPOINT_URL_KINESIS"]
    made = send(gateway, FUNCTIONS, a_function(), FOREIGN, signed_by=root, service="lambda")
    listed = send(kinesis, "/", b"{}", {**FOREIGN, **STREAMS}, signed_by=root, service="kinesis")

    assert (made.status, listed.status) == (403, 403)
    assert functions(exported) == []


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS"])
def test_a_browser_that_asks_first_is_allowed_nothing(exported: Mapping[str, str], endpoint: str) -> None:
    asked = {
        **FOREIGN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    answer = send(exported[endpoint], "/", b"", asked, method="OPTIONS")

    assert answer.status == 403
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


def test_kinesis_refuses_requests_without_its_keys(exported: Mapping[str, str], root: Credentials) -> None:
    kinesis = exported["AWS_ENDPOINT_URL_KINESIS"]
    wrong = Credentials(root.access_key, "test")

    assert send(kinesis, "/", b"{}", STREAMS).status == 403
    assert send(kinesis, "/", b"{}", STREAMS, signed_by=wrong, service="kinesis").status == 403
    assert send(kinesis, "/?Action=ListStreams", b"{}", STREAMS).status == 403
    assert send(kinesis, "/", b"{}", STREAMS, signed_by=root, service="kinesis").status == 200


def test_a_signature_is_for_its_own_body_alone(exported: Mapping[str, str], root: Credentials) -> None:
    kinesis = exported["AWS_ENDPOINT_URL_KINESIS"]
    headers = signature(kinesis, "/", b"{}", STREAMS, root, "kinesis")

    assert send(kinesis, "/", b'{"Limit": 1}', headers).status == 403


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS"])
def test_answers_carry_no_cors_headers(exported: Mapping[str, str], root: Credentials, endpoint: str) -> None:
    is_kinesis = endpoint.endswith("KINESIS")
    target, service = (
        (STREAMS, "kinesis")
        if is_kinesis
        else (
            {"x-amz-target": "DynamoDB_20120810.ListTables", "content-type": "application/x-amz-json-1.0"},
            "dynamodb",
        )
    )
    answer = send(exported[endpoint], "/", b"{}", target, signed_by=root, service=service)

    assert answer.status == 200
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


def functions(exported: Mapping[str, str]) -> list[str]:
    session = boto3.session.Session(
        exported["AWS_ACCESS_KEY_ID"], exported["AWS_SECRET_ACCESS_KEY"], region_name=REGION
    )
    listed = session.client("lambda", endpoint_url=exported["AWS_ENDPOINT_URL"]).list_functions()
    return [each["FunctionName"] for each in listed["Functions"]]


def a_function() -> bytes:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("x.py", "def h(event, context):\n    return 'it ran'\n")
    request = {
        "FunctionName": "foreign",
        "Runtime": "python3.11",
        "Role": "arn:aws:iam::000000000000:role/none",
        "Handler": "x.h",
        "Code": {"ZipFile": base64.b64encode(code.getvalue()).decode()},
    }
    return json.dumps(request).encode()


def send(
    endpoint: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    signed_by: Credentials | None = None,
    service: str = "",
) -> Answer:
    wanted = dict(headers or {})
    if signed_by is not None:
        wanted = signature(endpoint, path, body, wanted, signed_by, service)
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=20)
    try:
        connection.request(method, path, body, wanted)
        reply = connection.getresponse()
        return Answer(reply.status, dict(reply.getheaders()), reply.read())
    finally:
        connection.close()


def signature(
    endpoint: str, path: str, body: bytes, headers: Mapping[str, str], keys: Credentials, service: str
) -> dict[str, str]:
    """The headers, with those of a signature added."""
    request = AWSRequest("POST", endpoint + path, dict(headers), body)
    SigV4Auth(keys, service, REGION).add_auth(request)
    return {str(name): str(value) for name, value in request.headers.items()}
