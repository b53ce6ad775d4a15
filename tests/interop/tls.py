"""TLS in front of the embedded Kinesis, which the KPL requires. On loopback, with the emulator's own certificate.

Bytes are passed on unchanged, so signatures stay valid and the proxy behind (infra/local/signed_kinesis.cjs) checks
each request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.local.embedded import HOST, KINESIS_LOCAL


@contextmanager
def in_front_of(port: int, folder: Path) -> Iterator[int]:
    """A port on this machine, until the block ends. The certificate is written to `folder`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        starting = asyncio.run_coroutine_threadsafe(_serve(port, _certificate(folder)), loop)
        yield starting.result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _serve(upstream: int, context: ssl.SSLContext) -> int:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection(HOST, upstream)
        await asyncio.gather(_pass(reader, on), _pass(back, writer))

    server = await asyncio.start_server(connected, HOST, 0, ssl=context)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass  # one side is gone, so the other is of no use either
    finally:
        writer.close()


def _certificate(folder: Path) -> ssl.SSLContext:
    server = json.loads((KINESIS_LOCAL / "server.json").read_text())["server"]
    files = [folder / f"tls-{part}.pem" for part in ("cert", "key")]
    for file, part in zip(files, ("cert", "key"), strict=True):
        file.write_text(server[part])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = files
    context.load_cert_chain(certificate, key)
    return context
