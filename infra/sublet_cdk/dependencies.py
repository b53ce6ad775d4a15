"""Installs the library's dependencies from locked wheels for their platform: the Lambda layer, and the pipeline's on
EMR Serverless.

    python -m sublet_cdk.dependencies layer

builds the layer for both architectures; a construct builds it on first use. The same lock file gives the same bytes,
so CDK's asset hash changes only when a dependency does.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sublet_cdk.bytecode import LAYERS, add_bytecode, python_of_version
from sublet_cdk.shipped import CHECKOUT, is_checkout, shipped
from sublet_cdk.wheels import MACHINES, PackagesNotInstalled, Platform, install


@dataclass(frozen=True, slots=True)
class Bundle:
    """Packages to install, and for which platform. They go into the folder `inside`."""

    name: str
    lock_file: str
    python_versions: tuple[str, ...]
    """Python versions. Binaries have the version in their names, so those of several versions can share a folder."""
    glibc: str
    inside: str = "."


LAYER = Bundle("layer", "requirements/layer.txt", ("3.11", "3.12", "3.13", "3.14"), "manylinux2014", "python")
"""The Lambda layer. boto3 is left out, because Lambda includes it. It is for four Pythons: a function's runtime may be
any of them, and the embedded AWS runs functions on the machine's own."""

EMR = Bundle("emr", "requirements/emr.txt", ("3.11",), "manylinux_2_28")
"""The pipeline's packages, without PySpark, which EMR includes. PyArrow has no wheels for a glibc older than 2.28;
EMR's is 2.34.
"""


PROCESS = Bundle("process", "requirements/process.txt", ("3.13",), "manylinux_2_28")
"""The packages of a process, which include boto3, since a plain Python image lacks it."""


def built(bundle: Bundle, architecture: str) -> Path:
    """The folder of a bundle for `arm64` or `x86_64`, built on first use. Raises PackagesNotInstalled."""
    return build(bundle, architecture, cache_folder(os.environ))


def build(bundle: Bundle, architecture: str, cache: Path) -> Path:
    """Does what `built` does, in the folder `cache`."""
    lock_file = shipped(bundle.lock_file)

    def install_all(fresh: Path) -> None:
        print(f"sublet: getting {lock_file.name} for {architecture}, once, into {target}", file=sys.stderr)
        for version in bundle.python_versions:
            unpacked = fresh.parent / version
            install(lock_file, Platform(architecture, version, bundle.glibc), unpacked, locked=True)
            shutil.copytree(unpacked, fresh / bundle.inside, dirs_exist_ok=True)

    target = place(bundle, architecture, cache)
    return _made_once(target, install_all)


def built_with_bytecode(bundle: Bundle, architecture: str, python_version: str) -> Path:
    """A layer's folder for one Python version, with bytecode if this machine has that Python."""
    folder = built(bundle, architecture)
    if python_of_version(python_version) is None:
        return folder

    def compile_all(fresh: Path) -> None:
        shutil.copytree(folder, fresh)
        add_bytecode(fresh, python_version, LAYERS)

    return _made_once(folder.with_name(f"{folder.name}-python{python_version}"), compile_all)


def _made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Makes a folder unless it exists. Two processes may do so at once: a folder appears whole, and the second is
    dropped.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
        fresh = Path(scratch) / target.name
        make(fresh)
        try:
            fresh.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target


def place(bundle: Bundle, architecture: str, cache: Path) -> Path:
    """Returns a bundle's folder, whose name changes with everything that its content depends on."""
    recipe = repr((bundle, architecture)).encode()
    digest = hashlib.sha256(recipe + shipped(bundle.lock_file).read_bytes()).hexdigest()
    return cache / f"{bundle.name}-{architecture}-{digest[:16]}"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Returns a checkout's layers/ folder; otherwise the user's cache, as the XDG standard defines it."""
    if is_checkout():
        return CHECKOUT / "layers" / "dependencies"
    stated = environment.get("XDG_CACHE_HOME", "")
    root = Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache"
    return root / "sublet" / "dependencies"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sublet_cdk.dependencies", description="Build the dependencies of the deployed code."
    )
    bundles = {bundle.name: bundle for bundle in (LAYER, EMR, PROCESS)}
    parser.add_argument("bundle", choices=bundles, help="the Lambda layer, or for the pipeline on EMR Serverless")
    bundle = bundles[parser.parse_args().bundle]
    for architecture in MACHINES:
        try:
            folder = built(bundle, architecture)
        except PackagesNotInstalled as problem:
            print(f"sublet: {problem}", file=sys.stderr)
            return 1
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"    {folder}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
