"""Aggregates with the oldest protobuf that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.exploring import explores
from tests.package.distributions import ROOT, Distributions, environment_with, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), explores]


def test_aggregation_works_with_the_oldest_protobuf(distributions: Distributions, tmp_path: Path) -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (oldest,) = (found[1] for each in stated if (found := re.match(r"protobuf>=([\d.]+)", each)))
    pinned = tmp_path / "pinned.txt"
    pinned.write_text(f"protobuf=={oldest}.0\n")
    python = str(
        environment_with(
            distributions.wheel,
            tmp_path / "venv",
            more=("pytest", "pytest-timeout", "hypothesis"),
            locked=pinned,
        )
    )
    tests = ["tests/unit/protocol", "tests/property/test_deaggregation.py"]
    run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "aggreg or kpl", *tests], ROOT)
    assert oldest in run([python, "-c", "import google.protobuf as it; print(it.__version__)"])
