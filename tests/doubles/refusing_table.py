"""A lease table, or another port, that refuses all calls from some moment on, or until one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite


@dataclass(slots=True)
class RefusingTable:
    """A program's access to the lease table. Once the program is killed, no call gets through."""

    table: LeaseTable
    error: Exception
    refuses: bool = False

    def scan(self) -> LeaseScan:
        self._check()
        return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        self._check()
        return self.table.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        self._check()
        return self.table.apply(write)

    def _check(self) -> None:
        if self.refuses:
            raise self.error


class OutOfReach:
    """In front of any port: each call raises `error` while it `refuses`."""

    def __init__(self, port: object, error: Exception) -> None:
        self._port = port
        self._error = error
        self.refuses = True
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._port, name)
        if not callable(asked):
            return asked

        def ask(*args: Any, **kwargs: Any) -> Any:
            if self.refuses:
                self.refused += 1
                raise self._error
            return asked(*args, **kwargs)

        return ask
