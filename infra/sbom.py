"""`make sbom`: writes sublet's dependencies and build tools as a CycloneDX document, from the lock files alone.

We do not use cyclonedx-py, because it describes an installed environment, and so one platform and Python. The lock
files name what any of them gets, with the hashes that are checked. The same lock files give the same document.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DEPLOYED = ("layer", "emr")
"""Lock files of what is deployed to AWS; the others are for building, testing and demos."""

PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Part(NamedTuple):
    """A dependency. `hashes`: those of each file that an installation may download, with CycloneDX's names for the
    algorithms.
    """

    url: str
    name: str
    version: str
    hashes: tuple[tuple[str, str], ...]


def document(root: Path = ROOT) -> dict[str, Any]:
    """Returns the document, in the newest format version that current tools read."""
    used: dict[Part, set[str]] = {}
    for lock, parts in locked(root):
        for part in parts:
            used.setdefault(part, set()).add(lock)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "sublet", "bom-ref": "sublet"}},
        "components": [component(part, locks) for part, locks in sorted(used.items())],
    }


def component(part: Part, locks: set[str]) -> dict[str, Any]:
    """CycloneDX's scope: deployed parts are required, all others excluded."""
    return {
        "type": "library",
        "bom-ref": part.url,
        "name": part.name,
        "version": part.version,
        "purl": part.url,
        "scope": "required" if locks & set(DEPLOYED) else "excluded",
        "hashes": [{"alg": algorithm, "content": content} for algorithm, content in part.hashes],
        "properties": [{"name": "sublet:lock", "value": lock} for lock in sorted(locks)],
    }


def locked(root: Path) -> Iterator[tuple[str, Sequence[Part]]]:
    for file in sorted((root / "requirements").glob("*.txt")):
        yield file.stem, python_parts(file.read_text())
    for file in (root / "package-lock.json", root / "infra/local/localstack/package-lock.json"):
        yield (
            f"npm:{file.parent.name if file.parent != root else 'root'}",
            npm_parts(json.loads(file.read_text())),
        )


def python_parts(text: str) -> list[Part]:
    parts = []
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        if pinned := PINNED.match(entry):
            name = re.sub(r"[-_.]+", "-", pinned[1]).lower()
            hashes = tuple(("SHA-256", each) for each in sorted(HASH.findall(entry)))
            parts.append(Part(f"pkg:pypi/{name}@{pinned[2]}", name, pinned[2], hashes))
    return parts


def npm_parts(lock: Mapping[str, Any]) -> list[Part]:
    parts = []
    for path, entry in lock["packages"].items():
        name = path.rpartition("node_modules/")[2]
        if name:
            algorithm, _, digest = entry["integrity"].partition("-")
            hashes = ((f"SHA-{algorithm[3:]}", base64.b64decode(digest).hex()),)
            url = f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}"
            parts.append(Part(url, name, entry["version"], hashes))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.sbom", description=__doc__)
    parser.add_argument("target", type=Path, help="the file to write")
    target: Path = parser.parse_args().target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document(), indent=1) + "\n")
    print(target)


if __name__ == "__main__":
    main()
