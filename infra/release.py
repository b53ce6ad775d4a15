"""`make release`: writes the published files to dist/. Two builds must give the same bytes, or nothing is written.

sublet-X.tar.gz, sublet-X-py3-none-any.whl   built twice, with the locked build tools and the commit's time
sublet.cdx.json                              the bill of materials
notes.md                                     this version's part of CHANGELOG.md
SHA256SUMS                                   of the first three; `sha256sum --check` reads it
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import sublet
from sublet_cdk.wheels import uv

from infra.sbom import ROOT, document


class ReleaseError(Exception):
    """Why nothing is released, and what to do."""


def check_tag(tag: str, version: str) -> None:
    if tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, but sublet.__version__ is {version}: the tag must be v{version}")


def notes(changelog: str, version: str) -> str:
    """Returns the version's section: `## 0.2.0`, `## 0.2.0 (2026-11-23)`, or before its release `## Unreleased
    (0.2)`.
    """
    minor = version.rpartition(".")[0]
    titles = rf"{re.escape(version)}(?: [^\n]*)?|Unreleased \({re.escape(minor)}\)"
    found = re.search(rf"^## (?:{titles})\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md has no section ## {version}: describe there what changes for users")
    return found[1].strip() + "\n"


def build(target: Path, built_at: int) -> dict[str, bytes]:
    """Builds the sdist, and the wheel from it. Returns them by file name. `built_at`: the archives' time stamp, in
    seconds since 1970."""
    constraints = ROOT / "requirements" / "build.txt"
    command = [
        uv(),
        "build",
        "--quiet",
        "--build-constraints",
        str(constraints),
        "--out-dir",
        str(target),
        str(ROOT),
    ]
    subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": str(built_at)}, check=True)
    return {file.name: file.read_bytes() for file in sorted(target.iterdir()) if file.suffix in {".gz", ".whl"}}


def check_equal(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    different = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if different:
        raise ReleaseError(
            f"two builds differ in {', '.join(different)}: their content depends on more than the commit"
        )


def checksums(files: dict[str, bytes]) -> str:
    """Returns the files' hashes in sha256sum's format."""
    return "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))


def release(target: Path, tag: str | None) -> list[Path]:
    if tag:
        check_tag(tag, sublet.__version__)
    said = notes((ROOT / "CHANGELOG.md").read_text(), sublet.__version__)
    built_at = committed_at()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        files = build(Path(one), built_at)
        check_equal(files, build(Path(other), built_at))
    files["sublet.cdx.json"] = (json.dumps(document(), indent=1) + "\n").encode()
    files |= {"SHA256SUMS": checksums(files).encode(), "notes.md": said.encode()}
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    return [target / name for name in files]


def committed_at() -> int:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", type=Path, help="the folder to write, which is emptied first")
    parser.add_argument("--tag", help="refuse if this is not the tag of the version")
    asked = parser.parse_args()
    try:
        for file in release(asked.target, asked.tag):
            print(file)
    except ReleaseError as refused:
        print(f"sublet: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
