"""The sample application of amazon_kclpy, unchanged, on its own base class.

kclpy-ext has the Python sources of amazon_kclpy, and LocalStack's environment has kclpy-ext: `make e2e-localstack`
makes it, and runs this too.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.handlers.load import handler_of
from sublet.settings import HandlerContract

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld, only

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = next(iter(ROOT.glob(".local/localstack/lib/python3*/site-packages/amazon_kclpy")), None)
KCL = replace(NO_WAITING, handler_contract=HandlerContract.RECORD_PROCESSOR)

pytestmark = pytest.mark.skipif(INSTALLED is None, reason="needs LocalStack's environment: run `make e2e-localstack`")


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its module, with nothing else of that environment on the path."""
    assert INSTALLED is not None
    shutil.copytree(INSTALLED, tmp_path / "amazon_kclpy", ignore=shutil.ignore_patterns("jars", "__pycache__"))
    shutil.copy(INSTALLED.parent / "samples" / "sample_kclpy_app.py", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    import sample_kclpy_app  # type: ignore[import-not-found] # found by the line above

    yield sample_kclpy_app
    for name in set(sys.modules) - before:
        del sys.modules[name]


def window(world: EngineWorld, **options: Any) -> Any:
    world.handler = handler_of("sample_kclpy_app:RecordProcessor", world.settings)  # type: ignore[assignment]
    return world.window(**options)


def test_kclpy_sample_handles_all_and_checkpoints_at_its_shutdown(
    sample: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    world = EngineWorld(KCL)
    _, last = world.put("a", "b")
    assert only(window(world)).outcome is SessionOutcome.CAUGHT_UP
    assert str(world.table.lease().checkpoint) == last
    said = capsys.readouterr().err
    assert said.count("Record (Partition Key: key-") == 2
    assert said.index("Shutdown has been requested, checkpointing.") < said.index("Lease has been lost")


def test_kclpy_sample_ends_a_shard_at_a_reshard(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world = EngineWorld(KCL)
    world.put("a")
    world.shards.split(SHARD)
    report = window(world, item=world.item(SHARD))
    assert report.leases[0].outcome is SessionOutcome.SHARD_ENDED
    assert world.table.lease().is_ended
    assert "Shard has ended checkpointing" in capsys.readouterr().err


def test_kclpy_sample_catches_our_errors_as_kclpys(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It gives up at once at a ShutdownException of kclpy's class; any other exception would go through it."""
    world = EngineWorld(KCL)
    world.put("a")
    sample.RecordProcessor.process_record = lambda *_: world.steal()
    made: list[Any] = []
    create = sample.RecordProcessor.__init__

    def due_at_once(processor: Any) -> None:
        create(processor)
        processor._CHECKPOINT_FREQ_SECONDS = -1
        made.append(processor)

    sample.RecordProcessor.__init__ = due_at_once
    assert only(window(world)).outcome is SessionOutcome.LEASE_LOST
    said = capsys.readouterr()
    assert "Encountered shutdown exception, skipping checkpoint" in said.out
    assert "Encountered an exception" not in said.err
    assert len(made) == 1
