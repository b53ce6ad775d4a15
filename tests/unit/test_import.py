"""`import sublet` in a handler's module loads what a handler meets, and nothing else."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import sublet

PROGRAM = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"
HEAVY = ("boto3", "botocore", "aws_lambda_powertools", "google.protobuf", "pyspark")


def loaded_by(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded


OF_WHO_PULLS_OR_PUTS = {"Event", "EventKind", "FleetStatus", "Producer", "WorkDistribution"}
"""Most handlers' modules have no use for these."""


def test_handler_names_import_no_aws_library_and_no_engine() -> None:
    """boto3 alone takes 200 ms, and the decisions 10."""
    loaded = loaded_by(f"from sublet import {', '.join(set(sublet.__all__) - OF_WHO_PULLS_OR_PUTS)}")
    assert [name for name in loaded if name.startswith(HEAVY)] == []
    inner = ("sublet.decisions", "sublet.engine", "sublet.aws", "sublet.testing.memory", "sublet.runtimes")
    assert [name for name in loaded if name.startswith(inner)] == []


def test_a_consumer_to_pull_from_loads_no_aws_library_before_it_asks() -> None:
    """A quarter of a second, which is no work for an event loop."""
    program = "from sublet.aio import Consumer; Consumer('audit', 'orders')._group"
    assert [name for name in loaded_by(program) if name.startswith(HEAVY[:3])] == []


def test_the_package_alone_loads_no_module_of_its_own() -> None:
    assert [name for name in loaded_by("import sublet") if name.startswith(("sublet", "msgspec"))] == ["sublet"]


def test_every_name_is_there_and_no_other() -> None:
    for name in sublet.__all__:
        assert getattr(sublet, name).__name__ == name
    assert dir(sublet) == sorted([*sublet.__all__, "__version__"])
    with pytest.raises(AttributeError, match="module 'sublet' has no attribute 'Btach'"):
        getattr(sublet, "Btach")  # noqa: B009 -- mypy knows that there is none


def test_type_checkers_see_the_same_names() -> None:
    (told,) = (
        node
        for node in ast.parse(Path(str(sublet.__file__)).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imported = [node for node in told.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname: node.module for node in imported for alias in node.names}
    assert names == sublet._MODULE_OF


def test_the_version_is_the_distribution_s() -> None:
    assert sublet.__version__ == version("sublet")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "version" not in project, "it is read from sublet/__init__.py"
