"""What Spark has committed, as its query's checkpoint folder says: `commits/<batch>` beside `offsets/<batch>`.

Spark tells a source of a commit only when it plans the next batch. Of the last batch of a query it tells nobody, but it has
written it here before it ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sublet.runtimes.spark.offsets import Offset, offset_to_json

LOOKED_AT = 3
"""Commits back from the last one: a source may have had nothing to read in the last of a query with several sources."""


class Commits(Protocol):
    """What is known of a query's commits."""

    def has(self, end: Offset) -> bool | None:
        """Whether one of the last committed batches ended at this offset. None: nobody can tell."""


class UnknownCommits:
    """The folder is not named, or is on a file system that only Spark can read."""

    def has(self, end: Offset) -> bool | None:  # noqa: ARG002
        return None


class LocalCommits:
    """A folder on this machine. Files appear in it by renaming, so one that is there is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, end: Offset) -> bool | None:
        wanted = offset_to_json(end)
        try:
            committed = [
                int(entry.name) for entry in (self._folder / "commits").iterdir() if entry.name.isdecimal()
            ]
            texts = [
                (self._folder / "offsets" / str(batch)).read_text()
                for batch in sorted(committed)[-LOOKED_AT:]
            ]
        except FileNotFoundError:  # nothing has been committed
            return False
        except OSError:
            return None
        return any(_says(text, wanted) for text in texts)


def commits_in(location: str | None) -> Commits:
    """Of a query whose `checkpointLocation` this is, as it was given to `writeStream`."""
    if location is None:
        return UnknownCommits()
    parts = urlsplit(location)
    if parts.scheme == "file":
        return LocalCommits(Path(unquote(parts.path)))
    return LocalCommits(Path(location)) if not parts.scheme else UnknownCommits()


def _says(text: str, wanted: Mapping[str, Any]) -> bool:
    """Spark's offset log has a line for each source of the query, after its own two."""
    return any(_parsed(line) == wanted for line in text.splitlines())


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
