"""Serves the console until it is interrupted."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import uvicorn

from sublet.errors import SettingsError
from sublet.operate.console.console_parts import Console
from sublet.operate.console.hosts import is_loopback
from sublet.operate.console.routes import console_app

GRACE_SECONDS = 2
"""How long requests in progress may still take after Ctrl-C."""


def listen(address: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises SettingsError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except OSError as refused:
        made.close()
        raise SettingsError(
            "address", f"{address}:{port}", f"must be free; give another --port ({refused.strerror})"
        ) from None
    return made


def server_of(console: Console, listening: socket.socket, named: Collection[str] = ()) -> uvicorn.Server:
    """Returns a server whose `run(sockets=[listening])` serves until `should_exit` is set, or a signal comes."""
    app = console_app(console, named, is_public=not is_loopback(listening.getsockname()[0]))
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,  # it would contain the link
            server_header=False,
            proxy_headers=False,  # anybody on this machine could name another address, or pass for the proxy
            lifespan="off",
            timeout_graceful_shutdown=GRACE_SECONDS,
            limit_concurrency=100,
        )
    )


def origin_of(listening: socket.socket) -> str:
    """The address that a browser on this machine opens."""
    address, port = listening.getsockname()[:2]
    shown = "localhost" if address in ("0.0.0.0", "::") else address  # noqa: S104 - compared, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def serve(console: Console, listening: socket.socket, named: Collection[str], begun: Callable[[str], None]) -> None:
    """Serves until Ctrl-C. Calls `begun` with the address to open, once a browser can open it."""
    server = server_of(console, listening, named)
    listening.listen()
    try:
        with _ended_by_ctrl_c(server):
            begun(origin_of(listening))
            server.run(sockets=[listening])
    finally:
        console.watching.stop()
        listening.close()


@contextmanager
def _ended_by_ctrl_c(server: uvicorn.Server) -> Iterator[None]:
    """Makes Ctrl-C ask the server to end, even before it runs, because an exception during an event loop's start may
    get lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: setattr(server, "should_exit", True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
