"""A test that is too slow fails alone, in whichever phase; pytest's own work between the phases has no limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SLOW_REPORTS = """
import time

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    time.sleep(1.1 if item.name == "test_after" else 0)
    return report
"""

SLOW_TESTS = """
import time

import pytest


@pytest.fixture
def slow_setup():
    time.sleep(30)


@pytest.fixture
def slow_teardown():
    yield
    time.sleep(30)


def test_setup(slow_setup): ...
def test_call(): time.sleep(30)
def test_teardown(slow_teardown): ...
def test_after(): ...
"""


@pytest.mark.slow
def test_a_slow_phase_fails_alone_and_a_slow_report_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SLOW_REPORTS)
    (tmp_path / "test_slow.py").write_text(SLOW_TESTS)
    options = ["-c", "pyproject.toml", "--rootdir", str(tmp_path), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, "--timeout", "1", "-q", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    ended = [line.split() for line in done.stdout.splitlines() if line.startswith(("ERROR ", "FAILED "))]
    assert {(outcome, test.split("::")[1]) for outcome, test, *_ in ended} == {
        ("ERROR", "test_setup"),
        ("FAILED", "test_call"),
        ("ERROR", "test_teardown"),
    }, done.stdout + done.stderr
    assert "1 failed, 2 passed, 2 errors" in done.stdout
