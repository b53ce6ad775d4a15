"""Build what runs beside the library from wheels of its platform: no Docker.

    python layers/build.py --uv .local/uv/bin/uv layer

writes the Lambda layer, layers/dependencies/<arm64|x86_64>/python, from requirements/layer.txt; `emr` writes what the
pipeline on EMR Serverless imports, layers/dependencies/emr/<arm64|x86_64>, from requirements/emr.txt. The same lock file
gives the same bytes, so CDK's asset hash moves only when a dependency does.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "layers" / "dependencies"
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}

# What differs from build to build, or is of no use at run time. The rest of dist-info stays: licences must
# travel with the code, and versions are looked up there.
NOT_SHIPPED = (
    "bin",
    "**/__pycache__",
    ".lock",
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is installed for where. `folder` holds a folder for each architecture, with the packages in `inside`."""

    lock_file: str
    python_versions: tuple[str, ...]
    """Binaries have the version in their names, so that those of several lie side by side."""
    glibc: str
    folder: Path
    inside: str = "."


BUNDLES = {
    # boto3 is left out: Lambda brings its own. Lambda's Python is 3.13; the embedded AWS runs the machine's.
    "layer": Bundle("layer.txt", ("3.11", "3.12", "3.13", "3.14"), "manylinux2014", OUTPUT, "python"),
    # PySpark is left out: EMR brings its own. PyArrow has no wheels for a glibc older than 2.28; EMR's is 2.34.
    "emr": Bundle("emr.txt", ("3.11",), "manylinux_2_28", OUTPUT / "emr"),
}


def build(uv: str, bundle: Bundle, architecture: str) -> Path:
    """Unpack the locked wheels of one architecture; the folder is replaced only when all of it has worked."""
    target = bundle.folder / architecture
    fresh = bundle.folder / f"{architecture}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    for version in bundle.python_versions:
        with TemporaryDirectory() as unpacked:
            _install(uv, bundle, architecture, version, unpacked)
            shutil.copytree(unpacked, fresh / bundle.inside, dirs_exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return target


def _install(uv: str, bundle: Bundle, architecture: str, python_version: str, target: str) -> None:
    lock_file = ROOT / "requirements" / bundle.lock_file
    platform = f"{MACHINES[architecture]}-{bundle.glibc}"
    subprocess.run(
        [
            *(uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
            *("--python-platform", platform, "--python-version", python_version),
            *("--link-mode", "copy", "--target", target, "--requirements", str(lock_file)),
        ],
        check=True,
    )
    for pattern in NOT_SHIPPED:
        for path in Path(target).glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the dependencies of what is deployed.")
    parser.add_argument("--uv", default="uv", help="uv's command")
    parser.add_argument(
        "bundle", choices=BUNDLES, help="the Lambda layer, or for the pipeline on EMR Serverless"
    )
    arguments = parser.parse_args()
    for architecture in MACHINES:
        try:
            target = build(arguments.uv, BUNDLES[arguments.bundle], architecture)
        except subprocess.CalledProcessError as failure:
            print(f"layers/build.py: nothing for {architecture}: see uv's words above", file=sys.stderr)
            return failure.returncode
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        print(f"    {target.relative_to(ROOT)}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
