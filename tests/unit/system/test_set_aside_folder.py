"""Set-aside records in a folder, as far as only files can do it. tests/contract/test_failure_destination.py has the
rest.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sublet.errors import DestinationRefused
from sublet.operate.set_aside_folder import SetAsideFolder
from sublet.ports import KeptBatch, RemovalResult

from tests.contract.test_failure_destination import batch


def the_only(store: SetAsideFolder) -> KeptBatch:
    (kept,) = store.kept("orders")
    return kept


def test_rewritten_file_is_not_removed(tmp_path: Path) -> None:
    store = SetAsideFolder(tmp_path)
    store.put(batch(100))
    read = the_only(store)
    store.put(batch(100))
    assert store.remove(read) is RemovalResult.STAYS
    read = the_only(store)
    assert store.remove(read) is RemovalResult.REMOVED
    assert store.remove(read) is RemovalResult.GONE


def test_unreadable_file_stays_in_the_folder_with_its_problem(tmp_path: Path) -> None:
    store = SetAsideFolder(tmp_path)
    store.put(batch(100))
    name = the_only(store).name
    (tmp_path / name).write_bytes(b"no gzip")
    assert the_only(store).batch is None
    assert "not gzipped JSON lines" in the_only(store).problem
    (tmp_path / "notes.txt").write_text("mine")
    assert store.counted().available == 1


def test_a_batch_of_another_application_is_not_read(tmp_path: Path) -> None:
    store = SetAsideFolder(tmp_path)
    store.put(batch(100))
    (kept,) = store.kept("billing")
    assert kept.problem == "of the application orders"


def test_batches_of_a_shard_come_in_order_of_their_numbers(tmp_path: Path) -> None:
    store = SetAsideFolder(tmp_path)
    for first in (100, 9, 1000):
        store.put(batch(first, 1))
    firsts = [kept.batch.records[0].sequence_number for kept in store.kept("orders") if kept.batch]
    assert firsts == ["9", "100", "1000"]


def test_a_folder_that_cannot_be_written_refuses(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DestinationRefused, match="cannot be written"):
        SetAsideFolder(file).put(batch(100))
