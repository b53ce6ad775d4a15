"""What tests of several levels share.

Hypothesis draws the same examples on every run and has no deadline, so that a slow machine or a lucky draw changes nothing.
To look further: `make test PYTEST_ARGS="tests/property --hypothesis-profile=explore"` (prints how to repeat a failure).
"""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from hypothesis import settings

from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=5_000, print_blob=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)  # `make check`
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def no_remembered_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 keeps the first credentials that it finds; each test's environment says which ones are its own."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.fixture(scope="session")
def embedded_aws() -> Iterator[EmbeddedAws]:
    """One embedded AWS for the session, started by the first test that asks; each makes its own streams and tables."""
    with start_embedded_aws() as aws:
        yield aws
