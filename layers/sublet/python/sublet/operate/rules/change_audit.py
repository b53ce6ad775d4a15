"""What people have changed through the console: who, what, when, and how it ended. Bounded, because every tick of a
lease manager reads the table that it is kept in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

KEPT_MAX = 100
BYTES_MAX = 16 * 1024
"""All entries together, as they are stored: four read units of each tick at most."""

LASTS = timedelta(days=90)
TEXT_MAX = 500
"""How many characters of a text are kept: a command may name hundreds of shards."""


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change.

    number  the plan's; an entry replaces the earlier one of its number
    by      who made it, and from where
    state   running, done or failed
    said    its outcome
    """

    number: str
    at: datetime
    by: str
    what: str
    command: str
    state: str = "running"
    said: str = ""


def with_entry(entries: Sequence[AuditEntry], entry: AuditEntry) -> tuple[AuditEntry, ...]:
    """The entries with one more, the newest last, without those that are too old, or too many."""
    cut = msgspec.structs.replace(
        entry, what=entry.what[:TEXT_MAX], command=entry.command[:TEXT_MAX], said=entry.said[:TEXT_MAX]
    )
    others = (each for each in entries if each.number != entry.number)
    found = sorted((*current(tuple(others), entry.at), cut), key=lambda each: each.at)[-KEPT_MAX:]
    while len(found) > 1 and len(encode_audit(found)) > BYTES_MAX:
        del found[0]
    return tuple(found)


def current(entries: Sequence[AuditEntry], now: datetime) -> tuple[AuditEntry, ...]:
    return tuple(each for each in entries if now - each.at < LASTS)


def encode_audit(entries: Sequence[AuditEntry]) -> bytes:
    return msgspec.json.encode(entries)


def decode_audit(data: bytes) -> tuple[AuditEntry, ...]:
    """Raises ValueError for what is not an audit."""
    return msgspec.json.decode(data, type=tuple[AuditEntry, ...])
