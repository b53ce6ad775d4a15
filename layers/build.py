"""Build the Lambda layer of dependencies for both architectures from wheels of Lambda's platform: no Docker.

    python layers/build.py --uv .local/uv/bin/uv

writes layers/dependencies/<arm64|x86_64>/python from requirements/layer.txt. The same lock file gives the
same bytes, so CDK's asset hash moves only when a dependency does. boto3 is left out: Lambda brings its own.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK_FILE = ROOT / "requirements" / "layer.txt"
OUTPUT = ROOT / "layers" / "dependencies"
PYTHON_VERSION = "3.13"
PLATFORMS = {"arm64": "aarch64-manylinux2014", "x86_64": "x86_64-manylinux2014"}

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


def build(uv: str, architecture: str) -> Path:
    """Unpack the locked wheels of one architecture; the folder is replaced only when all of it has worked."""
    target = OUTPUT / architecture
    fresh = OUTPUT / f"{architecture}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    subprocess.run(
        [
            *(uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
            *("--python-platform", PLATFORMS[architecture], "--python-version", PYTHON_VERSION),
            *("--link-mode", "copy", "--target", str(fresh / "python"), "--requirements", str(LOCK_FILE)),
        ],
        check=True,
    )
    for pattern in NOT_SHIPPED:
        for path in (fresh / "python").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Lambda layer of dependencies.")
    parser.add_argument("--uv", default="uv", help="uv's command")
    arguments = parser.parse_args()
    for architecture in PLATFORMS:
        try:
            target = build(arguments.uv, architecture)
        except subprocess.CalledProcessError as failure:
            print(f"layers/build.py: no layer for {architecture}: see uv's words above", file=sys.stderr)
            return failure.returncode
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        print(f"    {target.relative_to(ROOT)}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
