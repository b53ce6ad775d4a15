"""Reads from a query's checkpoint folder what Spark has committed: `commits/<batch>` beside `offsets/<batch>`.

Spark tells a source of a commit only when it plans the next batch. It never tells the source that a query's last
batch was committed, but it writes that here before the query ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from sublet.aws.clients import s3_client
from sublet.aws.s3_folder import ObjectFolder
from sublet.spark.plan.offset_log import has_offset
from sublet.spark.plan.offsets import Offset

S3_SCHEMES = ("s3", "s3a", "s3n")
LOOKED_AT = 3
"""How many of the last commits are checked: in a query with several sources, one source may have nothing to read in
the last batch."""


class QueryCommits(Protocol):
    """The commits of a query, as far as they are known. `location`: where they are, as the query's option says."""

    @property
    def location(self) -> str | None: ...

    def has(self, end: Offset) -> bool | None:
        """True if one of the last committed batches ended at this offset. None if that cannot be known, as with entries
        in a format that this version does not know."""


class UnknownCommits:
    """Answers None to everything: no folder was given, or only Spark can read its file system (such as HDFS)."""

    def __init__(self, location: str | None) -> None:
        self.location = location

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
    """The commits in a checkpoint folder. `may_be_elsewhere`: it is not known that Spark has it on the same file
    system.
    """

    def __init__(
        self, folder: CheckpointFolder, location: str | None = None, *, may_be_elsewhere: bool = False
    ) -> None:
        self._folder = folder
        self._may_be_elsewhere = may_be_elsewhere
        self.location = location

    def has(self, end: Offset) -> bool | None:
        try:
            committed = sorted(int(name) for name in self._folder.names("commits") if name.isdecimal())
        except FileNotFoundError:  # nothing has been committed
            return None if self._may_be_elsewhere and not self._is_made() else False
        except OSError:
            return None
        found = {self._ends_at(end, batch) for batch in committed[-LOOKED_AT:]}
        if True in found:
            return True
        return None if None in found else False

    def _is_made(self) -> bool:
        """True if Spark has made the folder here, as it does before the first batch."""
        try:
            self._folder.names("offsets")
        except OSError:
            return False
        return True

    def _ends_at(self, end: Offset, batch: int) -> bool | None:
        try:
            return has_offset(self._folder.text(f"offsets/{batch}"), end)
        except (OSError, UnicodeDecodeError):  # Spark may have removed the entry of an older batch meanwhile
            return None


def commits_in(location: str | None, region: str | None = None) -> QueryCommits:
    """Returns the commits of the query whose `checkpointLocation` this is, as given to `writeStream`: on this machine,
    or in S3. Without a scheme it is on Spark's default file system, which may be this machine's or not.
    """
    if location is None:
        return UnknownCommits(location)
    parts = urlsplit(location)
    if parts.scheme in S3_SCHEMES:
        return FolderCommits(ObjectFolder(s3_client(region), parts.netloc, parts.path), location)
    if parts.scheme == "file":
        return FolderCommits(LocalFolder(Path(unquote(parts.path))), location)
    if parts.scheme:
        return UnknownCommits(location)
    return FolderCommits(LocalFolder(Path(location)), location, may_be_elsewhere=True)
