"""Keeps what people have changed through the console."""

from __future__ import annotations

from threading import Lock
from typing import Protocol

from sublet.operate.rules.change_audit import AuditEntry, with_entry


class ChangeAudit(Protocol):
    """Where an application's changes are kept, for all consoles. Raises what LeaseTable raises."""

    def keep(self, entry: AuditEntry) -> None:
        """Add the entry, instead of the one of its number, and forget the oldest."""

    def entries(self) -> tuple[AuditEntry, ...]:
        """All entries, the newest last."""


class MemoryChangeAudit:
    """Until the console ends: for an application of KCL alone, which has no table beside its leases."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: tuple[AuditEntry, ...] = ()

    def keep(self, entry: AuditEntry) -> None:
        with self._lock:
            self._entries = with_entry(self._entries, entry)

    def entries(self) -> tuple[AuditEntry, ...]:
        return self._entries
