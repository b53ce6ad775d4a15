"""Kinesis' replies by way of the oldest boto3 that pyproject.toml allows: what its model does not know is read all the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.exploring import explores
from tests.package.distributions import ROOT, Distributions, environment_with, run

pytestmark = [pytest.mark.slow, explores]

TESTS = [f"tests/contract/test_{name}.py" for name in ("kinesis_replies", "kinesis_errors", "repeated_call")]


def oldest_boto3() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (boto3,) = [each for each in project["dependencies"] if each.startswith("boto3")]
    found = re.search(r">=([\d.]+)", boto3)
    assert found is not None
    return found[1]


def test_the_replies_are_read_as_by_the_locked_one(distributions: Distributions, tmp_path: Path) -> None:
    oldest = tmp_path / "oldest.txt"
    oldest.write_text(f"boto3=={oldest_boto3()}.0\n")
    python = environment_with(
        distributions.wheel,
        tmp_path / "venv",
        more=("pytest", "pytest-timeout", "hypothesis", "moto"),
        locked=oldest,
    )
    said = run([str(python), "-c", "import boto3; print(boto3.__version__)"]).strip()
    assert said == f"{oldest_boto3()}.0"
    run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], ROOT)
