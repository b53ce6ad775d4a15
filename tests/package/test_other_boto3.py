"""AWS with the oldest boto3 that pyproject.toml allows, and the oldest botocore: fields that its model does not know
are still read and sent, and calls that need a newer one say so. And with the newest available boto3."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.exploring import explores
from tests.package.distributions import ROOT, Distributions, environment_with, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), explores]

TESTS = (
    "kinesis_replies.py",
    "kinesis_errors.py",
    "repeated_call.py",
    "put_one_record.py",
    "failure_destination.py::test_store_no_longer_gives_a_removed_batch",
)
WITHOUT_EMULATORS = (
    "tests/unit/aws",
    *(
        f"tests/contract/test_{name}.py"
        for name in ("cut_replies", "hosts", "many_shards", "create_tables", "redrive_stores")
    ),
    "tests/contract/test_put_records.py",
)
NEWER = (
    "not embedded and not moto and not test_dynamodb_host_is_the_accounts_where_the_account_is_known "
    "and not test_a_service_that_cuts_off_every_reply_is_unavailable"
)
"""Only a later botocore knows DynamoDB's account endpoints; an older one reports a reply that is always truncated as
a missing one."""

CANNOT = "not test_max_record_kib_is_updated_only_where_it_differs"
"""What an older boto3 cannot do, and refuses by name."""


def oldest_boto3() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (boto3,) = [each for each in project["dependencies"] if each.startswith("boto3")]
    found = re.search(r">=([\d.]+)", boto3)
    assert found is not None
    return found[1]


def asked_by(distributions: Distributions, folder: Path, pins: str) -> str:
    """In an environment with the wheel and these versions. Returns the boto3 version."""
    pinned = folder / "pinned.txt"
    pinned.write_text(pins)
    python = environment_with(
        distributions.wheel,
        folder / "venv",
        more=("pytest", "pytest-timeout", "hypothesis", "moto", "opentelemetry-proto"),
        locked=pinned,
    )
    contracts = [f"tests/contract/test_{test}" for test in TESTS]
    run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CANNOT, *contracts], ROOT)
    run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", NEWER, *WITHOUT_EMULATORS], ROOT)
    return run([str(python), "-c", "import boto3; print(boto3.__version__)"]).strip()


def test_oldest_boto3_passes_the_tests(distributions: Distributions, tmp_path: Path) -> None:
    pins = "".join(f"{name}=={oldest_boto3()}\n" for name in ("boto3", "botocore"))
    assert asked_by(distributions, tmp_path, pins) == oldest_boto3()


def test_newest_boto3_passes_the_tests(distributions: Distributions, tmp_path: Path) -> None:
    said = asked_by(distributions, tmp_path, "")
    assert Version(said) >= Version(version("boto3")), "the index has an older one than is locked"
