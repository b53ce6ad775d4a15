"""What the last Parquet batch of sublet 0.2 may have written: its journal, for an output that is adopted. Pure.

If a crash has left only part of the text, nothing of its batch is in place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sublet.errors import SettingsError

JOURNAL_OF_02 = "_batch.json"
NAME = r"(?!\.+$)[A-Za-z0-9_.-]+"
"""A part of a place, or either side of its `=`: names that Spark writes unchanged. No `..`."""


@dataclass(frozen=True, slots=True)
class BatchJournal:
    """What one batch may write. `places`: folders below the output, each with files of this batch alone."""

    batch: int
    places: tuple[str, ...]

    @classmethod
    def from_json(cls, text: str | None) -> BatchJournal | None:
        try:
            value = json.loads(text or "")
            return cls(int(value["batch"]), tuple(map(str, value["places"])))
        except (ValueError, KeyError, TypeError):
            return None


def left_over(journal: BatchJournal | None, batch: int) -> tuple[str, ...]:
    """The folders that an earlier attempt at this batch may have written to.

    The caller deletes them with everything in them, and anyone who can write to the output can write the text. So only
    folders that a batch writes to are allowed: `table/.../batch=17`, each part a plain name. Raises SettingsError for
    any other.
    """
    places = journal.places if journal is not None and journal.batch == batch else ()
    for place in places:
        if not _is_of_batch(place, batch):
            raise SettingsError(
                "output", place, f"its journal names a folder that no batch writes to: check {JOURNAL_OF_02}"
            )
    return places


def _is_of_batch(place: str, batch: int) -> bool:
    table, *parts = place.split("/")
    return (
        re.fullmatch(NAME, table) is not None
        and parts[-1:] == [f"batch={batch}"]
        and all(re.fullmatch(f"{NAME}={NAME}", part) for part in parts)
    )
