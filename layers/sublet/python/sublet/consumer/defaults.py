"""What a long-lived process is set to, unless it is told otherwise: for `Consumer` and `sublet run`."""

from __future__ import annotations

import socket
from typing import Any

from sublet.settings import Mode


def process_defaults(application: str) -> dict[str, Any]:
    """Continuous, since it is there anyway; and a worker of its own, named for its machine or container."""
    return {"mode": Mode.CONTINUOUS, "worker_id": f"{application}-{socket.gethostname()}"}
