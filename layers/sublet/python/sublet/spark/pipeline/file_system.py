"""Access to the file system that Spark itself uses: local, HDFS, or an object store by its scheme."""

from __future__ import annotations

from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


class ListedFile(NamedTuple):
    """A listed file. `path` is relative to the listed folder; `modified` is in milliseconds since 1970."""

    path: str
    size: int
    modified: int


class SparkFiles:
    """Reads and writes text files and folders by full path. Raises the file system's errors as Py4J passes them on."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only access to Hadoop's file systems
        self._conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001

    def exists(self, path: str) -> bool:
        system, place = self._at(path)
        return bool(system.exists(place))

    def read_text(self, path: str) -> str | None:
        """Returns the text, or None if there is no such file."""
        system, place = self._at(path)
        if not system.exists(place):
            return None
        stream = system.open(place)
        try:
            size = system.getFileStatus(place).getLen()
            return bytes(stream.readNBytes(size)).decode("utf-8", "replace")
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Writes or overwrites a file. A crash may leave only part of the text."""
        system, place = self._at(path)
        stream = system.create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def write_new_text(self, path: str, text: str) -> bool:
        """As `write_text`. False if there is such a file already, as far as the file system can tell."""
        system, place = self._at(path)
        try:
            stream = system.create(place, False)
        except Py4JJavaError as failure:
            if failure.java_exception.getClass().getName() == _EXISTS:
                return False
            raise
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        return True

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with its contents, if it exists."""
        system, place = self._at(path)
        system.delete(place, True)

    def move(self, source: str, target: str) -> None:
        """Moves a file. Does nothing if it is moved already, which another process may be doing at the same time: so a
        target that is there whole stays."""
        system, place = self._at(source)
        if not system.exists(place):
            return
        _, to = self._at(target)
        system.mkdirs(to.getParent())
        try:
            if system.exists(to) and not self._is_as_long(system, place, to):
                system.delete(to, False)
            is_moved = system.delete(place, False) if system.exists(to) else system.rename(place, to)
        except Py4JJavaError:
            is_moved = False
            if system.exists(place):
                raise
        if not is_moved and (system.exists(place) or not system.exists(to)):
            raise OSError(f"{source} cannot be moved to {target}")

    def copy(self, source: str, target: str) -> None:
        """Copies a file, and replaces the one that is there. Does nothing if there is no such source."""
        system, place = self._at(source)
        if system.exists(place):
            _, to = self._at(target)
            system.mkdirs(to.getParent())
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(system, place, system, to, False, True, self._conf)

    def _is_as_long(self, system: Any, one: Any, other: Any) -> bool:
        return bool(system.getFileStatus(one).getLen() == system.getFileStatus(other).getLen())

    def names(self, folder: str) -> list[str]:
        """The names in the folder; none if there is no such folder."""
        system, place = self._at(folder)
        return sorted(status.getPath().getName() for status in system.listStatus(place)) if system.exists(place) else []

    def files(self, folder: str) -> list[ListedFile]:
        """All files below the folder, except those that readers of tables ignore. None if there is no such folder."""
        system, place = self._at(folder)
        if not system.exists(place):
            return []
        root = system.makeQualified(place).toString().rstrip("/") + "/"
        found, listing = [], system.listFiles(place, True)
        while listing.hasNext():
            status = listing.next()
            path = status.getPath().toString().removeprefix(root)
            if not any(map(_is_ignored, path.split("/"))):
                found.append(ListedFile(path, status.getLen(), status.getModificationTime()))
        return sorted(found)

    def files_in(self, folder: str) -> list[ListedFile]:
        """The files in the folder itself. None if there is no such folder."""
        system, place = self._at(folder)
        found = [each for each in system.listStatus(place) if each.isFile()] if system.exists(place) else []
        return sorted(
            ListedFile(str(each.getPath().getName()), each.getLen(), each.getModificationTime()) for each in found
        )

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in it, except those that readers of tables ignore."""
        system, place = self._at(folder)
        if not system.exists(place):
            return []
        names = [str(each.getPath().getName()) for each in system.listStatus(place) if each.isDirectory()]
        return sorted(name for name in names if not name.startswith(("_", ".")))

    def absolute(self, path: str) -> str:
        """Returns the path with its scheme, as Spark understands it."""
        system, place = self._at(path)
        return str(system.makeQualified(place).toString())

    def _at(self, path: str) -> tuple[Any, Any]:
        """Returns a path and its file system. A local one writes no checksum files, since a crash could leave a wrong
        one.
        """
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(self._conf)
        return (system.getRawFileSystem() if system.getScheme() == "file" else system), place


def _is_ignored(part: str) -> bool:
    """Whether readers of tables ignore a file or folder of this name. A folder of a partition they read."""
    return part.startswith(".") or (part.startswith("_") and "=" not in part)
