"""The wheel in a fresh environment: its names can be imported, and its types can be checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exploring import explores
from tests.package.distributions import Distributions, environment_with, run

pytestmark = pytest.mark.slow

EVERY_PUBLIC_NAME = """
from importlib import import_module
from pathlib import Path
import sublet

root = Path(sublet.__file__).parent
packages = [".".join(path.parent.relative_to(root.parent).parts) for path in root.rglob("__init__.py")]
modules = [import_module(name) for name in packages if not name.startswith(("sublet.spark", "sublet.spark.pipeline"))]
for module in modules:
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None, (module, name)
        print(name)
"""

PROJECT = {
    "handler.py": """
from sublet import Batch


def handle(batch: Batch) -> None:
    for record in batch.records:
        data: bytes = record.data
        print(batch.shard_id, record.partition_key, len(data))
""",
    "process.py": """
from datetime import timedelta

from sublet import Batch, Consumer
from sublet.testing.memory import MemoryStream, memory_ports

seen: list[bytes] = []


class Audit:
    def handle(self, batch: Batch) -> None:
        attempt: int = batch.attempt
        region: str | None = batch.region
        left: int = batch.remaining_time_in_millis()
        print(attempt, region, left)
        batch.checkpoint(batch.records[0])
        seen.extend(record.data for record in batch.records)

    def lease_releasing(self, shard_id: str) -> None:
        print(shard_id)


consumer = Consumer("audit", "orders", Audit(), ports=memory_ports(MemoryStream(2)), failover_time=timedelta(seconds=9))
consumer.stop()
consumer.run(until_signalled=True)
""",
    "test_handler.py": """
from sublet import Batch, Checkpoint, UserRecord
from sublet.testing import MemoryConsumer, SimulatedRun, batch, checkpointed, consume, simulate

from handler import handle


def test_one_batch() -> None:
    given: Batch = batch([b"a", ("customer-7", b"b")])
    handle(given)
    done: list[UserRecord] = checkpointed(given)
    assert done == []


def test_all(memory_consumer: MemoryConsumer) -> None:
    checkpoints: dict[str, Checkpoint] = memory_consumer.checkpoints
    retries: int = consume(handle, [b"a"], shards=2, handler_attempts=1).retries
    assert not checkpoints
    assert not retries


def test_crashes() -> None:
    def check(run: SimulatedRun) -> None:
        seconds: list[float] = [delivery.seconds for delivery in run.deliveries]
        assert seconds

    print(simulate(handle, seeds=10, check=check).repeating)
""",
    "app.py": """
from datetime import timedelta

from aws_cdk import App, Stack
from aws_cdk.aws_kinesis import Stream
from sublet import Mode, StartKind, StartPosition
from sublet_cdk import AlarmThresholds, KinesisConsumer

stack = Stack(App(), "orders")
consumer = KinesisConsumer(
    stack,
    "Audit",
    application="orders-audit",
    stream=Stream(stack, "Orders"),
    handler_code="handlers",
    handler="orders:handle",
    alarm_thresholds=AlarmThresholds(lag_minutes=30),
    mode=Mode.CONTINUOUS,
    window=timedelta(minutes=5),
    start_position=StartPosition(StartKind.LATEST),
)
name: str = consumer.worker.function_name
""",
    "wrong.py": """
from sublet import Batch, Consumer


Consumer("audit", "orders", 7)


def handle(batch: Batch) -> None:
    for record in batch.records:
        text: str = record.data
        print(batch.shards, text)
""",
}


@pytest.fixture(scope="module")
def environment(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the wheel and no extra."""
    folder = tmp_path_factory.mktemp("installed")
    environment_with(distributions.wheel, folder / "venv")
    return folder / "venv/bin"


def test_every_public_name_can_be_imported_from_the_wheel_alone(environment: Path, tmp_path: Path) -> None:
    names = run([str(environment / "python"), "-c", EVERY_PUBLIC_NAME], tmp_path)
    assert {"Batch", "Settings"} <= set(names.split())
    run([str(environment / "sublet"), "--help"], tmp_path)


def test_constructs_without_the_extra_say_what_to_install(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"ImportError: .* install sublet with its extra cdk"):
        run([str(environment / "python"), "-c", "from sublet_cdk import KinesisConsumer"], tmp_path)


def test_deploying_without_the_extra_says_what_to_install(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"sublet: .* install sublet with its extra cdk"):
        run([str(environment / "sublet"), "deploy"], tmp_path)


def test_the_console_without_the_extra_says_what_to_install(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"sublet: .* install sublet with its extra operate"):
        run([str(environment / "sublet"), "console"], tmp_path)


@explores
@pytest.mark.timeout(300)  # mypy reads all of aws-cdk-lib
def test_a_users_files_are_checked_against_the_installed_types(distributions: Distributions, tmp_path: Path) -> None:
    python = environment_with(distributions.wheel, tmp_path / "venv", "cdk", more=("mypy",))
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    check = [str(python), "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    run([*check, "handler.py", "process.py", "test_handler.py", "app.py"], tmp_path)
    with pytest.raises(AssertionError) as found:
        run([*check, "wrong.py"], tmp_path)
    assert 'expression has type "bytes"' in str(found.value)
    assert 'has no attribute "shards"' in str(found.value)
    assert 'incompatible type "int"' in str(found.value)
