"""What people have changed through the console, within bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from sublet.operate.rules.change_audit import (
    BYTES_MAX,
    KEPT_MAX,
    LASTS,
    TEXT_MAX,
    AuditEntry,
    current,
    decode_audit,
    encode_audit,
    with_entry,
)

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)


def entry(number: int, at: datetime = NOW, what: str = "Move all shards") -> AuditEntry:
    return AuditEntry(str(number), at, "ada@example.com", what, "sublet seek")


def test_an_entry_replaces_the_one_of_its_number() -> None:
    done = msgspec.structs.replace(entry(1), state="done", said="2 moved")
    assert with_entry(with_entry(with_entry((), entry(1)), entry(2)), done) == (entry(2), done)


def test_the_oldest_entries_are_forgotten() -> None:
    kept: tuple[AuditEntry, ...] = ()
    for number in range(KEPT_MAX + 5):
        kept = with_entry(kept, entry(number, NOW + number * timedelta(seconds=1)))
    assert [each.number for each in kept] == [str(number) for number in range(5, KEPT_MAX + 5)]
    later = entry(999, NOW + LASTS + timedelta(seconds=50))
    assert next(each.number for each in with_entry(kept, later)) == "51"
    assert current(kept, NOW + 2 * LASTS) == ()


def test_all_entries_together_have_a_size_at_most() -> None:
    kept: tuple[AuditEntry, ...] = ()
    for number in range(KEPT_MAX):
        kept = with_entry(kept, entry(number, NOW + number * timedelta(seconds=1), "x" * 10_000))
        assert len(encode_audit(kept)) <= BYTES_MAX
    assert kept[-1].number == str(KEPT_MAX - 1)
    assert len(kept[-1].what) == TEXT_MAX


def test_an_audit_is_read_as_it_was_written() -> None:
    kept = (entry(1), entry(2))
    assert decode_audit(encode_audit(kept)) == kept
    with pytest.raises(ValueError, match=r"."):
        decode_audit(b"{}")
