"""Access to the file system that Spark itself uses: local, HDFS, or an object store by its scheme."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession


class File(NamedTuple):
    """`path` is relative to the listed folder; `modified` in milliseconds of Unix time."""

    path: str
    size: int
    modified: int


class SparkFiles:
    """Text files and folders by full path. Errors of the file system come through Py4J unchanged."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only access to Hadoop's file systems
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
        """Overwrites. A crash in the middle may leave part of the text."""
        system, place = self._at(path)
        stream = system.create(place, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with its contents. A missing one is no error."""
        system, place = self._at(path)
        system.delete(place, True)

    def files(self, folder: str) -> list[File]:
        """All files below the folder, except those that readers of tables ignore."""
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
        """The local file system without checksum files: a crash could leave a file and a checksum that do not match."""
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(self._conf)
        return (system.getRawFileSystem() if system.getScheme() == "file" else system), place
