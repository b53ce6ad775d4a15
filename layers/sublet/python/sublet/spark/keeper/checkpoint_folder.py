"""Reads from a query's checkpoint folder what Spark has committed: `commits/<batch>` beside `offsets/<batch>`.

Spark tells a source of a commit only when it plans the next batch. It never tells the source that a query's last
batch was committed, but it writes that here before the query ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sublet.aws.clients import s3_client
from sublet.aws.objects import ObjectFolder
from sublet.errors import OffsetMalformed
from sublet.spark.plan.offsets import Offset, offset_from_json, offset_to_json

S3_SCHEMES = ("s3", "s3a", "s3n")
LOOKED_AT = 3
"""How many of the last commits are checked: in a query with several sources, one source may have nothing to read in
the last batch."""


class QueryCommits(Protocol):
    """The commits of a query, as far as they are known."""

    def has(self, end: Offset) -> bool | None:
        """True if one of the last committed batches ended at this offset. None if that cannot be known."""


class UnknownCommits:
    """Answers None to everything: no folder was given, or only Spark can read its file system (such as HDFS)."""

    def has(self, end: Offset) -> bool | None:  # noqa: ARG002
        return None


class CheckpointFolder(Protocol):
    """A checkpoint folder. Raises OSError; FileNotFoundError for a missing file. Files appear whole."""

    def names(self, folder: str) -> list[str]: ...

    def text(self, path: str) -> str: ...


class LocalFolder:
    """A folder on this machine. Spark renames files into it, so that they appear whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, folder: str) -> list[str]:
        return [entry.name for entry in (self._path / folder).iterdir()]

    def text(self, path: str) -> str:
        return (self._path / path).read_text()


class FolderCommits:
    """The commits in a checkpoint folder."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder

    def has(self, end: Offset) -> bool | None:
        wanted = offset_to_json(end)
        try:
            committed = sorted(int(name) for name in self._folder.names("commits") if name.isdecimal())
            texts = [self._folder.text(f"offsets/{batch}") for batch in committed[-LOOKED_AT:]]
        except FileNotFoundError:  # nothing has been committed
            return False
        except OSError:
            return None
        return any(_says(text, wanted) for text in texts)


def commits_in(location: str | None, region: str | None = None) -> QueryCommits:
    """Returns the commits of the query whose `checkpointLocation` this is, as given to `writeStream`: on this machine,
    or in S3.
    """
    if location is None:
        return UnknownCommits()
    parts = urlsplit(location)
    if parts.scheme in S3_SCHEMES:
        return FolderCommits(ObjectFolder(s3_client(region), parts.netloc, parts.path))
    if parts.scheme == "file":
        return FolderCommits(LocalFolder(Path(unquote(parts.path))))
    return UnknownCommits() if parts.scheme else FolderCommits(LocalFolder(Path(location)))


def _says(text: str, wanted: Mapping[str, Any]) -> bool:
    """True if the log entry has this offset. An entry has a line for each source of the query, after two lines of
    Spark's own. A line may have more in it than the offset."""
    return any(_offset_in(line) == wanted for line in text.splitlines())


def _offset_in(line: str) -> object:
    try:
        return offset_to_json(offset_from_json(json.loads(line)))
    except (ValueError, OffsetMalformed):
        return None
