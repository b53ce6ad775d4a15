"""Where metrics are sent: CloudWatch's endpoint for OTLP, signed, or a collector.

CloudWatch's ("Send metrics using OpenTelemetry" in its User Guide) is https://monitoring.<region>.amazonaws.com/v1/metrics,
HTTP/1.1, signed for the service `monitoring`; it takes JSON, and gzip. The permission is cloudwatch:PutMetricData.
A collector is named by OpenTelemetry's own variables: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from botocore.exceptions import BotoCoreError

from sublet import __version__
from sublet.aws import clients
from sublet.aws.clients import Connection
from sublet.errors import SettingsError
from sublet.protocol.otlp import ENDPOINT, METRICS_ENDPOINT, Temporality, has_collector

HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS")
"""`name=value,name=value`, with values quoted as in a URL: a collector's authorization. The second wins."""
TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
"""`cumulative`, which is the default for a collector, `delta` or `lowmemory`."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
FRAMING = {"content-length", "transfer-encoding"}
"""What says where a request ends is not the user's to state."""

PATH = "/v1/metrics"
SIGNED_FOR = "monitoring"
SOCKET_SECONDS = 1.5
"""The longest wait for a connection, and for a reply."""
TOLD_MAX = 200
"""How many characters of a refusal the log has."""


class Refused(Exception):
    """The endpoint did not take the metrics. The message says why."""


class Endpoint(Protocol):
    """Takes requests with metrics."""

    @property
    def temporality(self) -> Temporality: ...

    def send(self, request: bytes) -> None:
        """Send a request (JSON). Raises Refused, or what the network, botocore or a provider of credentials raises."""


def endpoint_of(environment: Mapping[str, str], connection: Connection) -> Endpoint:
    """A collector if the environment names one, otherwise CloudWatch in the connection's region. Raises
    SettingsError.
    """
    whole, base = environment.get(METRICS_ENDPOINT, "").strip(), environment.get(ENDPOINT, "").strip()
    if not has_collector(environment):
        return CloudWatch(connection)
    name, stated = (METRICS_ENDPOINT, whole) if whole else (ENDPOINT, base)
    url = _url(name, stated)
    if not whole:
        url = url._replace(path=f"{url.path.rstrip('/')}{PATH}")
    headers = {key: value for each in HEADERS for key, value in _headers(each, environment.get(each, "")).items()}
    return Collector(url.geturl(), headers, _temporality(environment.get(TEMPORALITY, "")))


def _url(name: str, stated: str) -> SplitResult:
    """Its user, and its query, may be a credential."""
    try:
        url = urlsplit(stated)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        shown = "(not shown)" if "@" in stated or "?" in stated else stated
        raise SettingsError(name, shown, "a URL, such as http://localhost:4318")
    if url.username is not None:
        raise SettingsError(
            name, "(with a user)", f"a URL without one: {HEADERS[0]} is for a collector's authorization"
        )
    return url


def _headers(name: str, stated: str) -> Mapping[str, str]:
    found = {}
    for number, each in enumerate(filter(None, map(str.strip, stated.split(",")))):
        key, equals, value = each.partition("=")
        header, text = unquote(key.strip()).lower(), unquote(value.strip())
        if not equals or not HEADER_NAME.fullmatch(header) or not HEADER_VALUE.fullmatch(text) or header in FRAMING:
            # The value may be a credential.
            raise SettingsError(
                name,
                f"(its part {number + 1})",
                "name=value of an HTTP header, without a line break, and a comma before the next",
            )
        found[header] = text
    return found


def _temporality(stated: str) -> Temporality:
    known = {"cumulative": Temporality.CUMULATIVE, "delta": Temporality.DELTA, "lowmemory": Temporality.DELTA}
    if (text := stated.strip().lower() or "cumulative") not in known:
        raise SettingsError(TEMPORALITY, stated, f"one of {', '.join(known)}")
    return known[text]


class Collector:
    """Any receiver of OTLP over HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str], temporality: Temporality) -> None:
        self._url, self._headers = url, headers
        self._shown = urlsplit(url)._replace(query="").geturl()
        self.temporality = temporality
        self._session: Any = None

    def send(self, request: bytes) -> None:
        if self._session is None:
            self._session = _session(self._url, verify=True)
        try:
            _sent(self._session, _prepared(self._url, request, self._headers))
        except BotoCoreError as problem:  # whose text has the whole address
            raise Refused(f"{type(problem).__name__}: {problem}".replace(self._url, self._shown)) from None


class CloudWatch:
    """CloudWatch's endpoint for OTLP. Counters are sent as deltas, as KCL sends all of its metrics there: functions
    come and go, and a counter that begins anew with each would be a series for each.
    """

    temporality = Temporality.DELTA

    def __init__(self, connection: Connection, client: Any = None) -> None:
        """`client`: CloudWatch's, for its endpoint, region and credentials alone. None: made with the first request."""
        self._connection = connection
        self._client = client
        self._session: Any = None

    def send(self, request: bytes) -> None:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - would add to every cold start

        if self._client is None:
            self._client = clients.cloudwatch_client(*self._connection)
        meta, credentials = self._client.meta, vars(vars(self._client)["_request_signer"])["_credentials"]
        if credentials is None:
            raise Refused("there are no credentials to sign it with")
        url = f"{meta.endpoint_url.rstrip('/')}{PATH}"
        prepared = _prepared(
            url,
            request,
            {},
            sign=SigV4Auth(credentials.get_frozen_credentials(), SIGNED_FOR, meta.region_name).add_auth,
        )
        if self._session is None:
            self._session = _session(url, verify=vars(vars(self._client)["_endpoint"].http_session)["_verify"])
        _sent(self._session, prepared)


def _prepared(url: str, request: bytes, headers: Mapping[str, str], sign: Any = None) -> Any:
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - would add to every cold start

    fixed = {
        "content-type": "application/json",
        "content-encoding": "gzip",
        "user-agent": f"sublet/{__version__}",
    }
    made: Any = AWSRequest("POST", url, data=gzip.compress(request, mtime=0), headers={**headers, **fixed})
    if sign is not None:
        sign(made)
    return made.prepare()


def _session(url: str, *, verify: Any) -> Any:
    """botocore's own HTTP, so that proxies and authorities are as for all other calls."""
    from botocore.httpsession import URLLib3Session  # noqa: PLC0415 - would add to every cold start
    from botocore.utils import get_environ_proxies  # noqa: PLC0415 - would add to every cold start

    make: Any = URLLib3Session
    return make(verify=verify, proxies=get_environ_proxies(url), timeout=(SOCKET_SECONDS, SOCKET_SECONDS))


def _sent(session: Any, prepared: Any) -> None:
    """Raises Refused. A reply of success may still refuse some of the values (OTLP's partial success)."""
    reply = session.send(prepared)
    if not HTTPStatus.OK <= reply.status_code < HTTPStatus.MULTIPLE_CHOICES:
        raise Refused(f"HTTP {reply.status_code}: {_told(reply.content)}")
    partial = _partial(reply.content) if "json" in reply.headers.get("content-type", "") else {}
    if refused := int(partial.get("rejectedDataPoints") or 0):
        raise Refused(f"{refused} values were refused: {str(partial.get('errorMessage', ''))[:TOLD_MAX]}")


def _partial(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    partial = found.get("partialSuccess") if isinstance(found, Mapping) else None
    return partial if isinstance(partial, Mapping) else {}


def _told(content: bytes) -> str:
    return content[: 4 * TOLD_MAX].decode("utf-8", "replace").strip()[:TOLD_MAX] or "(no reason given)"
