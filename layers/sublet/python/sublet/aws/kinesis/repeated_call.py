"""Repeats a call as botocore sent it before, with a new body and our own signature.

botocore spends 1.5 ms of CPU on a call of a few hundred bytes, ten times what HTTP takes: each time it resolves the
endpoint, validates, and builds headers and a user agent. For a consumer of many quiet shards, which only polls and
heartbeats, that is almost the whole cost. So the first call of an operation goes through botocore, which shows us its
request before it is sent. Later calls repeat its URL and headers.

The request must prove that we understand it: it is repeated only if we compute the same signature as botocore did.
Credentials are fetched for each call. If they have changed, or an answer is anything but a success, the next call goes
through botocore again. Listeners to `before-send`, such as moto's, see every request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4
from zlib import crc32

import msgspec
from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError, ReadTimeoutError
from botocore.parsers import create_parser
from urllib3 import exceptions as urllib3_errors

from sublet.aws.credential_failures import named_provider_failures
from sublet.aws.kinesis.cut_replies import AnyClient, cut_off
from sublet.system.clock import SystemClock

_CLOCK = SystemClock()
"""Signatures need the machine's real time, also in tests with a clock of their own."""
_ALGORITHM = "AWS4-HMAC-SHA256"
_NOT_REPEATED = frozenset({"x-amzn-trace-id", "transfer-encoding", "content-encoding", "date"})
"""A request with one of these headers changes with each call, or is sent in a different way."""

READ_BYTES = 4 * 2**20
"""How much of a reply is read at a time. botocore reads 64 KiB at a time, which takes a third more CPU time for
GetRecords' megabytes.
"""


class HttpReply(NamedTuple):
    """A reply of the service, possibly truncated. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_whole(self) -> bool:
        """Whether the reply is whole, by Content-Length and by DynamoDB's checksum."""
        promised = self.headers.get("content-length", "")
        checksum = self.headers.get("x-amz-crc32", "")
        is_long_enough = not promised.isdecimal() or len(self.body) >= int(promised)
        return is_long_enough and (not checksum.isdecimal() or crc32(self.body) == int(checksum))

    @property
    def is_good(self) -> bool:
        return self.status == HTTPStatus.OK and self.is_whole


def error_of(answer: HttpReply, operation: str) -> ClientError:
    """The error that botocore would raise."""
    parser: Any = create_parser("json")
    reply = {"status_code": answer.status, "headers": answer.headers, "body": answer.body}
    is_cut = answer.status == HTTPStatus.OK
    promised = answer.headers.get("content-length", "")
    said: Any = cut_off(len(answer.body), promised) if is_cut else parser.parse(reply, None)
    return ClientError(said, operation)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that botocore sent, with the parts of its signature. `signed`: header names in the signature's
    order.
    """

    request: Any
    headers: Mapping[str, str]
    signed: tuple[str, ...]
    access_key: str
    region: str
    service: str
    signature: str
    host: str

    def signed_with(self, headers: Mapping[str, str], body: bytes, secret: str) -> str:
        """The signature of these headers and body, by AWS' Signature Version 4."""
        at = headers["x-amz-date"]
        scope = f"{at[:8]}/{self.region}/{self.service}/aws4_request"
        lines = [f"{name}:{self.host if name == 'host' else headers[name].strip()}" for name in self.signed]
        parts = ("POST", "/", "", *lines, "", ";".join(self.signed), hashlib.sha256(body).hexdigest())
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        key = f"AWS4{secret}".encode()
        for part in (*scope.split("/"), f"{_ALGORITHM}\n{at}\n{scope}\n{digest}"):
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex()

    def again(self, body: bytes, credentials: Any, now: datetime) -> Any:
        """The same request with another body, or None if the credentials have changed."""
        if credentials is None or credentials.access_key != self.access_key:
            return None
        at = now.strftime("%Y%m%dT%H%M%SZ")
        renewed = {"x-amz-date": at, "content-length": str(len(body)), "amz-sdk-invocation-id": str(uuid4())}
        headers = {**self.headers, **renewed}
        if credentials.token is not None:
            headers["x-amz-security-token"] = credentials.token
        signature = self.signed_with(headers, body, credentials.secret_key)
        credential = f"{self.access_key}/{at[:8]}/{self.region}/{self.service}/aws4_request"
        headers["authorization"] = (
            f"{_ALGORITHM} Credential={credential}, SignedHeaders={';'.join(self.signed)}, Signature={signature}"
        )
        request = copy(self.request)
        request.headers, request.body, request.stream_output = headers, body, True
        return request


def sent(request: Any, credentials: Any) -> SentRequest | None:
    """A Sent from botocore's request; None if it cannot be repeated."""
    url = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    algorithm, _, parameters = headers.get("authorization", "").partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in parameters.split(","))
    scope = fields.get("Credential", "").split("/")
    is_plain = request.method == "POST" and url.path in ("", "/") and not url.query
    is_json = headers.get("content-type", "").startswith("application/x-amz-json")
    is_first = "ttl=" not in headers.get("amz-sdk-request", "")
    if not (is_plain and is_json and is_first) or algorithm != _ALGORITHM or len(scope) != len("kdrst"):
        return None
    if _NOT_REPEATED & headers.keys() or credentials is None or not isinstance(request.body, bytes):
        return None
    access_key, _, region, service, _ = scope
    signed = tuple(fields.get("SignedHeaders", "").split(";"))
    found = SentRequest(
        request, headers, signed, access_key, region, service, fields.get("Signature", ""), host_of(url)
    )
    try:
        is_proved = found.signed_with(headers, request.body, credentials.secret_key) == found.signature
    except KeyError:  # a signed header was not sent
        return None
    return found if is_proved else None


def host_of(url: Any) -> str:
    default = {"http": 80, "https": 443}.get(url.scheme)
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return host if url.port in (None, default) else f"{host}:{url.port}"


def _read(response: Any, request: Any) -> bytes:
    """The reply's body. Raises botocore's errors, as if it had read it."""
    try:
        return b"".join(response.raw.stream(READ_BYTES))
    except urllib3_errors.ReadTimeoutError as timeout:
        raise ReadTimeoutError(endpoint_url=request.url, error=timeout) from timeout
    except urllib3_errors.ProtocolError as closed:
        raise ConnectionClosedError(error=closed, request=request, endpoint_url=request.url) from closed
    except urllib3_errors.HTTPError as failure:
        raise HTTPClientError(error=failure) from failure


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(slots=True)
class RepeatedCall:
    """One operation of one client, always on the same table or stream. Thread-safe, as the client is.

    of   what each of its requests says, such as a stream's ARN. Several streams may share a client, and botocore sends
         those of another account to another host.
    """

    client: AnyClient
    operation: str
    of: Mapping[str, str] = field(default_factory=dict)
    _sent: SentRequest | None = field(default=None, init=False)
    _signer: Any = field(default=None, init=False)
    _event: str = field(default="", init=False)
    _session: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Does nothing for a client that is not botocore's own, such as a test's: its calls are never repeated."""
        endpoint = getattr(self.client, "_endpoint", None)
        self._signer = getattr(self.client, "_request_signer", None)
        self._session = getattr(endpoint, "http_session", None)
        if self._session is None or self._signer is None:
            return
        service = self.client.meta.service_model.service_id.hyphenize()
        self._event = f"before-send.{service}.{self.operation}"
        unique_id = f"sublet-repeated-{self.operation}-{'-'.join(self.of.values())}"
        self.client.meta.events.register(self._event, self._see, unique_id=unique_id)

    def __call__(self, parameters: Mapping[str, Any]) -> HttpReply | None:
        """The service's answer, or None if nothing was sent and the call has to go through botocore. Raises
        botocore's HTTP errors."""
        known = self._sent
        if known is None:
            return None
        body = msgspec.json.encode(parameters)
        request = known.again(body, self._credentials(), _CLOCK.now())
        if request is None:
            self._sent = None
            return None
        answer = self._answer(request)
        if not answer.is_good:
            self._sent = None
        return answer

    def _answer(self, request: Any) -> HttpReply:
        heard = self.client.meta.events.emit(self._event, request=request)
        response = next((reply for _, reply in heard if reply is not None), None)
        try:
            if response is None:
                response = self._session.send(request)
                body = _read(response, request)
            else:
                body = response.content
        except Exception:
            self._sent = None
            raise
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpReply(response.status_code, headers, body)

    def _credentials(self) -> Any:
        signer = self._signer
        with named_provider_failures():
            return signer.get_auth_instance(signer.signing_name, signer.region_name, "v4").credentials

    def _see(self, request: Any, **_: Any) -> None:
        """Receives each request about to be sent. Only botocore's has headers other than a plain dict."""
        if self._sent is None and type(request.headers) is not dict and self._is_ours(request.body):
            self._sent = sent(request, self._credentials())

    def _is_ours(self, body: object) -> bool:
        if not self.of:
            return True
        said = msgspec.json.decode(body) if isinstance(body, bytes) else {}
        return all(said.get(name) == value for name, value in self.of.items())
