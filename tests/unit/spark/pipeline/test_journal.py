"""The journal of Parquet tables: what a torn text leaves, and what it may have moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.spark.pipeline.journal import Journal, TableState, checked_moves
from sublet.spark.plan.table_positions import Reached, TablePositions

RAW = TableState(
    TablePositions({"orders/shardId-0": Reached(Checkpoint("4968", 3), 1795227170308)}, {"orders": 17}),
    ({"name": "data", "type": "binary", "nullable": True, "metadata": {}},),
    ("arrivalDate",),
    has_files=True,
)


def test_journal_round_trips_and_a_torn_one_is_none() -> None:
    journal = Journal().next(3, {"raw": RAW}, ("raw/arrivalDate=2026-01-31/part-0.parquet",), "5f")
    assert Journal.from_json(journal.to_json()) == journal
    for torn in (None, "", journal.to_json()[:-5], "[]", "7", '{"number": 1}'):
        assert Journal.from_json(torn) is None


def test_journal_without_a_note_of_files_is_read() -> None:
    text = Journal().next(3, {"raw": RAW}, (), "5f").to_json()
    found = Journal.from_json(text.replace(', "hasFiles": true', ""))
    assert found is not None
    assert found.tables == {"raw": replace(RAW, has_files=False)}


def test_journal_keeps_the_tables_that_a_batch_does_not_touch() -> None:
    both = Journal().next(1, {"raw": RAW, "parsed": RAW}, (), "5f").next(2, {"raw": RAW}, (), "6f")
    assert sorted(both.tables) == ["parsed", "raw"]
    assert both.number == 2


@pytest.mark.parametrize(
    "place", ["", "raw", "/raw/x", "../x/y", "raw/../x", "raw//x", "raw/.", "raw/a\nb", "raw\\x/y"]
)
def test_no_journal_has_a_file_moved_out_of_its_table(place: str) -> None:
    with pytest.raises(SettingsError, match="a file that no batch writes"):
        checked_moves(Journal(1, {}, ("raw/x.parquet", place), "5f"))


def test_moves_into_folders_of_any_partition_are_allowed() -> None:
    moves = ("raw/arrivalDate=2026-01-31/part-0.parquet", "silver/country=C%C3%B4te d'Ivoire/p.parquet")
    assert checked_moves(Journal(1, {}, moves, "5f")) == moves


@pytest.mark.parametrize("attempt", ["", "..", "a/../.."])
def test_no_journal_has_files_moved_from_elsewhere(attempt: str) -> None:
    with pytest.raises(SettingsError, match="a file that no batch writes"):
        checked_moves(Journal(1, {}, ("raw/x.parquet",), attempt))
