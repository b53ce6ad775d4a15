"""How long a query lives, seen from outside the process that Spark may kill.

The JVM talks to the source's Python process through one socket. A copy of that socket, in the keeper, tells what the death
of the process alone does not: whether the query is over, or goes on with a batch that it may still commit. When a query ends,
however it does, Spark closes its side, after the last commit is written. When the source's process alone is killed, the
socket stays open until the batch under way is done; then Spark asks it for the next one.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

DESCRIPTORS = Path("/dev/fd")
STANDARD = frozenset({"0", "1", "2"})
"""Input, output and errors: whoever starts Spark may have given it sockets of its own for these."""


def query_connection() -> socket.socket | None:
    """A copy of Spark's socket, in the source's own process, before that has made any connection itself. None: not found."""
    for name in sorted({entry.name for entry in DESCRIPTORS.iterdir()} - STANDARD, key=int):
        with suppress(OSError):
            copy = os.dup(int(name))
            try:
                found = socket.socket(fileno=copy)
            except OSError:  # not a socket
                os.close(copy)
                continue
            with suppress(OSError):
                found.getpeername()
                return found
            found.close()
    return None


def wait_for_end(connection: socket.socket) -> None:
    """After the source's process has died: wait until Spark has closed its side, or asks for more, which is between batches.

    Half of ours is closed at once: Spark, waiting for an answer now or later, sees its end as if nobody held a copy.
    """
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        connection.recv(1, socket.MSG_PEEK)
    connection.close()
