"""The few things wanted of the file system that Spark itself uses: local, HDFS, or an object store by its scheme."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession


class File(NamedTuple):
    """`path` is below the folder that was listed; `modified` in milliseconds of Unix time."""

    path: str
    size: int
    modified: int


class SparkFiles:
    """Text and folders by full path. What the file system refuses is raised as it comes, through Py4J."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only door to Hadoop's file systems
        self._conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001

    def exists(self, path: str) -> bool:
        system, place = self._at(path)
        return bool(system.exists(place))

    def read_text(self, path: str) -> str | None:
        """None if there is no such file."""
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
        """In place of what is there. A crash in the middle may leave part of the text."""
        system, place = self._at(path)
        stream = system.create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self, path: str) -> None:
        """A file, or a folder with all that is in it; nothing if it is not there."""
        system, place = self._at(path)
        system.delete(place, True)

    def files(self, folder: str) -> list[File]:
        """All files below the folder, but none that readers of tables pass over."""
        system, place = self._at(folder)
        root = system.makeQualified(place).toString().rstrip("/") + "/"
        found, listing = [], system.listFiles(place, True)
        while listing.hasNext():
            status = listing.next()
            path = status.getPath().toString().removeprefix(root)
            if not any(part.startswith(("_", ".")) for part in path.split("/")):
                found.append(File(path, status.getLen(), status.getModificationTime()))
        return sorted(found)

    def absolute(self, path: str) -> str:
        """With its scheme, as Spark understands it."""
        system, place = self._at(path)
        return str(system.makeQualified(place).toString())

    def _at(self, path: str) -> tuple[Any, Any]:
        """The local one without its checksum files: a crash could leave a file and its checksum that do not fit."""
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(self._conf)
        return (system.getRawFileSystem() if system.getScheme() == "file" else system), place
