"""What a handler's module begins with: it loads what a handler meets, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

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


def test_every_name_loads_no_aws_library_and_none_of_what_the_engine_alone_needs() -> None:
    """boto3 alone takes 200 ms, and the decisions 10."""
    loaded = loaded_by("from sublet import *")
    assert [name for name in loaded if name.startswith(HEAVY)] == []
    inner = ("sublet.decisions", "sublet.engine", "sublet.aws", "sublet.memory", "sublet.runtimes")
    assert [name for name in loaded if name.startswith(inner)] == []


def test_the_package_alone_loads_no_module_of_its_own() -> None:
    assert [name for name in loaded_by("import sublet") if name.startswith(("sublet", "msgspec"))] == [
        "sublet"
    ]


def test_every_name_is_there_and_no_other() -> None:
    for name in sublet.__all__:
        assert getattr(sublet, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'sublet' has no attribute 'Btach'"):
        getattr(sublet, "Btach")  # noqa: B009 -- mypy knows that there is none
