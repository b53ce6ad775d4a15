"""Sets records aside in a folder of this machine: one file for each batch, named and written as in a bucket."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from sublet.errors import DestinationRefused
from sublet.ports import KeptBatch, RemovalResult, StoreCounts
from sublet.protocol.failure_document import (
    OBJECT_SUFFIX,
    SetAsideBatch,
    application_of_key,
    object_bytes,
    object_key,
    place_of_key,
)
from sublet.protocol.failure_document_read import EXPANDED_MAX, NotADocument, batch_of_object


class SetAsideFolder:
    """The FailureDestination and SetAsideStore ports. `kept` hides nothing from another redrive, like a bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, batch: SetAsideBatch) -> None:
        """Writes the whole file or nothing."""
        file = self._folder / object_key(batch, "")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".part")
            unfinished.write_bytes(object_bytes(batch))
            unfinished.replace(file)
        except OSError as problem:
            raise DestinationRefused(f"{file} cannot be written: {problem.strerror}") from problem

    def counted(self) -> StoreCounts:
        return StoreCounts(len(self._keys()))

    def kept(self, application: str) -> Generator[KeptBatch, None, None]:
        """Another application's batch is recognized by its name, and not read."""
        for key in sorted(self._keys(), key=_in_order):
            of = application_of_key(key)
            if of in (None, application):
                kept = self._read(key)
                if kept is not None:
                    yield kept
            else:
                yield KeptBatch(key, None, f"of the application {of}")

    def remove(self, kept: KeptBatch) -> RemovalResult:
        """Removes the file only if it is still the one that was read."""
        file = self._folder / kept.name
        try:
            if _version(file) != kept.version:
                return RemovalResult.STAYS
            file.unlink()
        except FileNotFoundError:
            return RemovalResult.GONE
        except OSError as problem:
            raise DestinationRefused(f"{file} cannot be removed: {problem.strerror}") from problem
        return RemovalResult.REMOVED

    def hold(self) -> None:
        """Does nothing: files are never hidden."""

    def leave(self, kept: KeptBatch) -> None:
        """Does nothing: files are never hidden."""

    def _keys(self) -> list[str]:
        found = self._folder.rglob(f"*{OBJECT_SUFFIX}")
        return [file.relative_to(self._folder).as_posix() for file in found if file.is_file()]

    def _read(self, key: str) -> KeptBatch | None:
        """None if another redrive has removed it since it was listed."""
        file = self._folder / key
        try:
            version, size = _version(file), file.stat().st_size
            if size > EXPANDED_MAX:
                return KeptBatch(key, None, f"file {key}: its {size:,} bytes are too many for a batch")
            return KeptBatch(key, batch_of_object(file.read_bytes()), version=version)
        except FileNotFoundError:
            return None
        except NotADocument as problem:
            return KeptBatch(key, None, f"file {key}: {problem}")
        except OSError as problem:
            return KeptBatch(key, None, f"file {key} cannot be read: {problem.strerror}")


def _version(file: Path) -> str:
    """The file's version. It changes with each `put`, which makes a new file."""
    found = file.stat()
    return f"{found.st_ino}-{found.st_mtime_ns}"


def _in_order(key: str) -> tuple[str, int, int, str]:
    place = place_of_key(key)
    return (key.rpartition("/")[0], place.sequence_number, place.sub_sequence_number, place.identity)
