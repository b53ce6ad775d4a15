"""pytest loads the plugin in every session: it finds the fixture, and pays nothing for it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PROGRAM = """
import sys

import sublet.testing.pytest_plugin

print([name for name in sys.modules if name.startswith(("msgspec", "boto", "greenlet", "sublet.")) and ".testing" not in
name])
"""


def test_pytest_plugin_is_registered() -> None:
    (entry,) = [entry for entry in entry_points(group="pytest11") if entry.name == "sublet"]
    assert entry.value == "sublet.testing.pytest_plugin"


@pytest.mark.slow
def test_a_users_test_finds_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(
        "def test_orders(memory_consumer):\n"
        "    seen = []\n"
        "    memory_consumer.put(b'a', b'b')\n"
        "    memory_consumer.consume(lambda batch: seen.extend(batch.records))\n"
        "    assert len(seen) == 2\n"
    )
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path)
    assert "1 passed" in done, done


SETTINGS = """
import pytest

pytestmark = pytest.mark.memory_consumer(handler_contract="lambda_event", handler_attempts=1)


@pytest.mark.memory_consumer(shards=3, handler_attempts=2)
def test_orders(memory_consumer):
    memory_consumer.put(b"a", b"b")
    done = memory_consumer.consume(lambda event, context: None)
    assert len(done.checkpoints) == 3
    assert memory_consumer.settings.handler_attempts == 2
"""


@pytest.mark.slow
def test_the_fixture_takes_settings_by_a_marker_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SETTINGS)
    done = run("-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path)
    assert "1 passed" in done, done


def test_plugin_imports_nothing_else() -> None:
    assert run("-c", PROGRAM).strip() == "[]"


def run(*arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr
