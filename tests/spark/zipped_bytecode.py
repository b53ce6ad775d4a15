"""Puts bytecode into the zips from which Spark's Python workers import PySpark: `python -m
tests.spark.zipped_bytecode`

An import from a zip keeps no bytecode, so each worker compiles PySpark at its start (0.9 instead of 0.3 s of CPU).
Beside other tests it may then not call back within Spark's 10 s, and its query fails: "Python worker failed to
connect back".

PySpark's own tests, half of the files, are left out: each worker reads the zip's directory again for every package in
it.
"""

from __future__ import annotations

from compileall import compile_dir
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory
from zipfile import ZipFile


def add_bytecode(archive: Path) -> None:
    """Beside the sources, which stay for tracebacks. A new file: the installer may share the old one with other
    environments."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with ZipFile(archive) as zipped:
            zipped.extractall(folder, [name for name in zipped.namelist() if "/tests/" not in name])
        compile_dir(folder, quiet=2, legacy=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        fresh = archive.with_suffix(".new")
        with ZipFile(fresh, "w") as zipped:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    zipped.write(path, path.relative_to(folder))
        fresh.replace(archive)


def main() -> None:
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    for archive in (Path(pyspark.origin).parent / "python" / "lib").glob("*.zip"):
        add_bytecode(archive)


if __name__ == "__main__":
    main()
