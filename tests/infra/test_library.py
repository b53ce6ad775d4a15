"""What is deployed of the library: the core, and on Spark its wing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from sublet_cdk.library import OLD_PATHS, WINGS, stage_library

IMPORTS = """
import pkgutil, sublet
from importlib import import_module
for module in pkgutil.walk_packages(sublet.__path__, "sublet."):
    if module.name != "sublet.__main__":
        import_module(module.name)
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    return stage_library(Stack(App(outdir=str(tmp_path)), "stack")) / "python"


def python(layer: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(layer)},
        cwd=layer.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_layer_has_the_core_alone(layer: Path) -> None:
    assert [path.name for path in layer.iterdir()] == ["sublet"]
    there = {path.name for path in (layer / "sublet").iterdir()}
    assert there.isdisjoint({*WINGS, *OLD_PATHS, "__pycache__"})
    assert {"engine", "decisions", "aws", "command_line", "py.typed"} <= there


def test_core_imports_without_its_wings(layer: Path) -> None:
    done = python(layer, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr


def test_deployed_core_runs_and_refuses_other_commands(layer: Path) -> None:
    helped = python(layer, "-m", "sublet", "run", "--help")
    assert (helped.returncode, helped.stdout.split()[:3]) == (0, ["usage:", "sublet", "run"]), helped.stderr
    assert python(layer, "-m", "sublet", "--version").stdout.startswith("sublet ")
    refused = python(layer, "-m", "sublet", "status")
    assert refused.returncode == 2
    assert "the package that you install has every command" in refused.stderr


def test_spark_job_has_the_core_and_the_spark_wing(tmp_path: Path) -> None:
    job = stage_library(Stack(App(outdir=str(tmp_path)), "stack"), with_spark=True) / "python"
    assert {path.name for path in job.iterdir()} == {"sublet", "pyspark_sublet"}
    there = {path.name for path in (job / "sublet").iterdir()}
    assert {"spark", "pipeline"} <= there
    assert there.isdisjoint({"operate", "testing", "cli", "memory"})
