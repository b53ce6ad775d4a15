"""The requests of SubscribeToShard.

botocore makes and signs them, so that endpoints, credentials and validation are its own. It does not send them: it gets
a reply without events instead, because an exception would be an error in the eyes of every tracer.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse, HeadersDict

from sublet.aws.kinesis.cut_replies import AnyClient
from sublet.aws.push.push_connection import Network, PushConnection, tls_context
from sublet.aws.push.push_http import Request
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.event_stream import message

OPERATION = "SubscribeToShard"


_NO_EVENTS = message(
    {":message-type": "event", ":event-type": "initial-response", ":content-type": "application/json"}, b"{}"
)


class _NoEvents:
    """The body of the reply that botocore gets, as urllib3 would return it."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield _NO_EVENTS

    def close(self) -> None:
        pass


class PushRequests:
    """Thread-safe, for any number of consumers. `client` must not be shared: its SubscribeToShard is never sent."""

    def __init__(self, client: AnyClient) -> None:
        self._client: Any = client
        self._signed = threading.local()
        """The request that this thread's call was to send."""
        self._client.meta.events.register_first(
            f"before-send.kinesis.{OPERATION}", self._keep, unique_id="sublet-push-signed"
        )

    def signed(self, consumer_arn: str, shard_id: str, position: ReadPosition) -> Request:
        """Raises what botocore raises."""
        self._client.subscribe_to_shard(
            ConsumerARN=consumer_arn, ShardId=shard_id, StartingPosition=_starting(position)
        )
        request = self._signed.request
        headers = {name: _text(value) for name, value in request.headers.items()}
        return Request(urlsplit(request.url), headers, request.body)

    def _keep(self, request: Any, **_: Any) -> AWSResponse:
        self._signed.request = request
        headers: Any = HeadersDict()
        body: Any = _NoEvents()
        return AWSResponse(request.url, HTTPStatus.OK, headers, body)

    def connection(self, request: Request) -> PushConnection:
        """Opens a connection and sends the request. Raises OSError and ReplyDamaged."""
        return PushConnection(request, self._network)

    @cached_property
    def _network(self) -> Network:
        """Makes the network settings that botocore's own HTTP session has."""
        session = vars(vars(self._client)["_endpoint"].http_session)
        verify, certificate = session["_verify"], session["_cert_file"]
        bundle, proxies = _bundle(verify) if verify else None, session["_proxy_config"]
        context = tls_context(
            bundle, certificate and (certificate, session["_key_file"]), is_verified=bool(verify), is_http2=has_http2()
        )
        return Network(
            lambda: context, proxies.proxy_url_for, lambda: _proxy_tls(proxies.settings, bundle, bool(verify))
        )


def _proxy_tls(settings: Mapping[str, Any], bundle: str | None, is_verified: bool) -> ssl.SSLContext:
    """What botocore's `proxies_config` says of a proxy's certificate and ours; without that, the service's authorities
    count.
    """
    own = settings.get("proxy_client_cert")
    certificate = (own, None) if isinstance(own, str) else own
    return tls_context(settings.get("proxy_ca_bundle") or bundle, certificate, is_verified=is_verified)


def has_http2() -> bool:
    """Whether the package for HTTP/2 is installed: sublet's extra fan-out."""
    try:
        import h2.connection  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def _starting(position: ReadPosition) -> Mapping[str, Any]:
    starting: dict[str, Any] = {"Type": position.type.value}
    if position.sequence_number is not None and position.type is not IteratorType.AT_TIMESTAMP:
        starting["SequenceNumber"] = position.sequence_number
    if position.at is not None:
        starting["Timestamp"] = position.at.astimezone(UTC)  # botocore ignores the time zone
    return starting


def _bundle(verify: bool | str) -> str:
    from botocore.httpsession import get_cert_path  # noqa: PLC0415

    return verify if isinstance(verify, str) else str(get_cert_path(True))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
