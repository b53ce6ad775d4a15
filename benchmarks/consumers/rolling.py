"""One of several consumers that are replaced one by one. It writes to a file when its handler got which record."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

FILE = "ROLLING_FILE"
"""The environment variable that names the file. It gets a line per record, with the time and the record's data."""


class Note:
    """Safe for threads and signals: a line is one appending write."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, datas: Iterable[bytes]) -> None:
        lines = "".join(f"{time.time()!r} {data.decode()}\n" for data in datas)
        os.write(self._file, lines.encode())


def kcl_rust(stream: str, application: str) -> None:
    from benchmarks.consumers.kcl_rust import run  # noqa: PLC0415 - only its own environment has it
    from benchmarks.consumers.tally import Order  # noqa: PLC0415

    note = Note()
    run(Order(stream, application, 0), lambda records: note.add(record.data for record in records))


def sublet(stream: str, application: str) -> None:
    from sublet.operate.cli.main import main  # noqa: PLC0415 - not in the peers' environment

    command = ["run", "--application", application, "--stream", stream]
    raise SystemExit(main([*command, "--handler", "benchmarks.consumers.rolling_handler:handle"]))


if __name__ == "__main__":
    _, who, *named = sys.argv
    {"sublet": sublet, "kcl_rust": kcl_rust}[who](*named)
