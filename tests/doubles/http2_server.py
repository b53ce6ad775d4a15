"""A server of one reply for each connection, over TLS and HTTP/2, on loopback; and a proxy over TLS before it."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself: the file that trusts it, and the file with its key too."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    shown = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, chain = folder / "authority.pem", folder / "chain.pem"
    authority.write_bytes(shown)
    chain.write_bytes(secret + shown)
    return authority, chain


class Http2Server:
    """Answers every request with these parts, and within the client's window. `is_cut`: without the end of the reply.
    `pings`: instead of the end it sends PINGs until the client has gone; with no parts, also instead of the head.
    """

    def __init__(self, chain: Path, parts: Sequence[bytes], *, is_cut: bool = False, pings: bool = False) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        context.set_alpn_protocols(["h2"])
        self._context = context
        self._parts = parts
        self._is_cut = is_cut
        self._pings = pings
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.asked: list[dict[bytes, bytes]] = []

    @property
    def url(self) -> SplitResult:
        return urlsplit(f"https://localhost:{self._listening.getsockname()[1]}/")

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listening.accept()
            except OSError:
                return
            with plain, suppress(OSError):
                self._serve(self._context.wrap_socket(plain, server_side=True))

    def _serve(self, client: ssl.SSLSocket) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.events import RequestReceived

        http: Any = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        http.initiate_connection()
        stream, waiting = 0, b"".join(self._parts)
        with client:
            client.sendall(http.data_to_send())
            is_mute = self._pings and not waiting
            while (stream == 0 or waiting) and (data := client.recv(65536)):
                for event in http.receive_data(data):
                    if isinstance(event, RequestReceived):
                        stream = event.stream_id
                        self.asked.append(dict(event.headers))
                        if not is_mute:
                            http.send_headers(stream, [(":status", "200")])
                while stream and waiting and (room := http.local_flow_control_window(stream)):
                    piece = waiting[: min(room, http.max_outbound_frame_size)]
                    waiting = waiting[len(piece) :]
                    http.send_data(stream, piece)
                client.sendall(http.data_to_send())
            while self._pings:  # ends with an OSError
                http.ping(b"are here")
                client.sendall(http.data_to_send())
                client.settimeout(0.01)
                with suppress(TimeoutError):
                    http.receive_data(client.recv(65536))
            if not self._is_cut:
                http.end_stream(stream)
                client.sendall(http.data_to_send())
                client.recv(65536)


class TlsProxy:
    """A proxy that is spoken to over TLS. `wire`: the first bytes that each client sent; `asked`: the heads of their
    requests.
    """

    def __init__(self, chain: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.wire: list[bytes] = []
        self.asked: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        self.wire.append(plain.recv(300, socket.MSG_PEEK))
        with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            self.asked.append(head.decode())
            host, _, port = head.split()[1].decode().rpartition(":")
            with socket.create_connection((host, int(port))) as service:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump(client, service)


def _pump(client: ssl.SSLSocket, service: socket.socket) -> None:
    while True:
        ready = [client] if client.pending() else select.select([client, service], [], [])[0]
        for side in ready:
            data = side.recv(65536)
            if not data:
                return
            (service if side is client else client).sendall(data)
