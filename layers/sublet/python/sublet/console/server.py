"""Serving the console until it is interrupted."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection

import uvicorn

from sublet.console.console import Console
from sublet.console.hosts import is_loopback
from sublet.console.routes import console_app
from sublet.errors import SettingsError

GRACE_SECONDS = 2
"""For requests under way when it is interrupted."""


def listen(address: str, port: int) -> socket.socket:
    """Raises SettingsError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except OSError as refused:
        made.close()
        raise SettingsError("address", f"{address}:{port}", f"a free address; {refused.strerror}") from None
    return made


def serve(
    console: Console, listening: socket.socket, named: Collection[str], begun: Callable[[str], None]
) -> None:
    """`begun` gets the address that a browser opens, without a link, once it can be opened."""
    address, port = listening.getsockname()[:2]
    shown = "localhost" if address in ("0.0.0.0", "::") else address  # noqa: S104 - compared, not bound
    origin = f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
    app = console_app(console, named, is_public=not is_loopback(address))
    configured = uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,  # the link would be in it
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=100,
    )
    listening.listen()
    begun(origin)
    try:
        uvicorn.Server(configured).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        console.watching.stop()
        listening.close()
