"""Fixtures that several kinds of tests share.

Hypothesis draws the same examples on every run and has no deadline, so that a slow machine or a lucky draw changes
nothing. `make test-all` draws ten times as many (`full`). To look further: `--hypothesis-profile=explore`, which draws
by chance and prints how to repeat a failure.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache

import boto3
import pytest
import pytest_timeout
from botocore.loaders import create_loader
from hypothesis import HealthCheck, settings
from sublet.system.heap import collect_seldom

from infra.local import EmbeddedAws
from infra.local import embedded_aws as start_embedded_aws

# How long examples take to draw depends on the machine, and on what else it does.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", settings.get_profile("repeatable"), max_examples=500)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=10)  # `make check`
settings.register_profile(
    "explore", settings.get_profile("repeatable"), derandomize=False, max_examples=5_000, print_blob=True
)
settings.load_profile("repeatable")

# `timeout_func_only` limits a test's call, and these two its setup and its teardown. What pytest does in between has no
# limit: one that ran out while pytest wrote a report would end the whole run.
pytest_runtest_setup = pytest_runtest_teardown = pytest_timeout.pytest_runtest_call

# The CDK checks each template with an engine that takes 5 s of CPU to start, once a process, and only warns.
# tests/infra/test_cfn_lint.py checks all templates, and fails.
os.environ.setdefault("CDK_VALIDATION", "false")


def pytest_collection_finish() -> None:
    """Tests and the services' models are a million objects that stay: searching them for garbage took a sixth of the
    CPU.
    """
    gc.collect()
    collect_seldom()


@pytest.fixture(autouse=True)
def no_remembered_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 keeps the first credentials that it finds; each test's environment says which ones are its own."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.fixture(scope="session", autouse=True)
def service_models_are_found_and_parsed_once() -> Iterator[None]:
    """Each new boto3 session looks through the folders of 400 services and parses the models of its own: more CPU than
    most contract tests need for all else.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.session.create_loader", cache(create_loader))
        yield


@pytest.fixture(scope="session")
def embedded_aws() -> Iterator[EmbeddedAws]:
    """One embedded AWS for the session, started by the first test that asks; each makes its own streams and tables."""
    with start_embedded_aws() as aws:
        yield aws
