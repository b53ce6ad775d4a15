"""What the Parquet batch under way may have written: said before anything is, so that another attempt can take it away.

One text, of the last batch that began. It may be torn by a crash, and then nothing of its batch is in place: an earlier
attempt's places are taken away before the text is written, and the attempt's own are written to after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Journal:
    """`places`: folders below the output, each of this batch alone."""

    batch: int
    places: tuple[str, ...]

    def to_json(self) -> str:
        return json.dumps({"batch": self.batch, "places": self.places})

    @classmethod
    def from_json(cls, text: str | None) -> Journal | None:
        try:
            value = json.loads(text or "")
            return cls(int(value["batch"]), tuple(map(str, value["places"])))
        except (ValueError, KeyError, TypeError):
            return None


def left_over(journal: Journal | None, batch: int) -> tuple[str, ...]:
    """The places that an earlier attempt at this batch may have written to."""
    return journal.places if journal is not None and journal.batch == batch else ()
