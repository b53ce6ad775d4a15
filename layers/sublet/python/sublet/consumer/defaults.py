"""What a long-lived process is set to, unless it is told otherwise: for `Consumer` and `sublet run`."""

from __future__ import annotations

import secrets
import socket
from datetime import timedelta
from typing import Any

from sublet.settings import Checkpointing, Mode


def process_defaults(application: str, start: str | None = None) -> dict[str, Any]:
    """Continuous, since it is there anyway; and a worker of its own, named for its machine or container, and for this start:
    two processes on one machine are two workers. One with a stable `worker_id` resumes its leases when it starts again. Nothing
    ends a process at the end of its window, so a handler call has a time of its own.
    """
    worker_id = f"{application}-{socket.gethostname()}-{start or secrets.token_hex(4)}"
    return {"mode": Mode.CONTINUOUS, "worker_id": worker_id, "handler_timeout": timedelta(minutes=15)}


def pull_defaults() -> dict[str, Any]:
    """What else where records are pulled: acknowledgements alone say what is done; a handler call waits for as long as nobody
    wants records, in a slot for each lease; and no window's end gives back what is out.
    """
    return {
        "checkpointing": Checkpointing.MANUAL,
        "handler_timeout": None,
        "handler_concurrency": 10_000,
        "window": timedelta(days=7),
    }
