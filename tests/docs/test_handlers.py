"""docs/handlers.md: its examples run, one after the other, and pass mypy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sublet import Batch
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.handlers.load import handler_of
from sublet.operate.redrive import Redrive
from sublet.protocol.failure_document import object_bytes
from sublet.testing.memory import FakeClock, MemoryLog

from tests.contract.test_failure_destination import batch
from tests.contract.test_redrive_stores import SETTINGS
from tests.doubles.s3_model import S3Model, client_of
from tests.exploring import explores

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/handlers.md"
BEFORE, TESTING, AFTER = re.split(
    r"^(## Testing a handler$.*?)(?=^## )", DOCUMENT.read_text(), flags=re.DOTALL | re.MULTILINE
)
EXAMPLES = re.findall(r"```python\n(.*?)```", BEFORE + AFTER + TESTING, flags=re.DOTALL)
"""Those of testing last: they test handlers of later sections."""
PROGRAM = "\n\n".join(EXAMPLES)


@pytest.mark.slow
def test_handler_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(PROGRAM, str(DOCUMENT), "exec"), {"__name__": "handlers"})  # noqa: S102 - our own documentation
    assert re.match(r"20 seeds, \d+ records, \d+ of them more than once", capsys.readouterr().out)


@pytest.mark.slow
@explores
def test_handler_examples_pass_mypy(tmp_path: Path) -> None:
    (tmp_path / "examples.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(ROOT / ".local/mypy"),
        "examples.py",
    ]
    environment = {"MYPYPATH": str(ROOT / "layers/sublet/python")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_stranger_s_document_leads_its_files_nowhere_else(tmp_path: Path) -> None:
    """Anyone who can write to the bucket can choose a shard's name, which `ToFiles` uses as a file name."""
    (example,) = [each for each in EXAMPLES if "class ToFiles" in each]
    names: dict[str, Any] = {"Batch": Batch}
    exec(compile(example, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own documentation
    names["FOLDER"] = tmp_path / "files"
    names["FOLDER"].mkdir()
    bucket = S3Model()
    store = S3Destination(client_of(bucket), "given-up", "")
    (tmp_path / "home").mkdir()
    for number, shard_id in enumerate(("../home/authorized_keys", "..", str(tmp_path / "home/all"), "shardId-0")):
        given = batch(number, shard=shard_id)
        bucket.put_object(Key=f"orders/shardId-0/{number}-0.jsonl.gz", Body=object_bytes(given))
    done = Redrive(store, handler_of(names["ToFiles"]()), SETTINGS, FakeClock(), MemoryLog()).run()
    assert (done.done, done.foreign) == (1, 3)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["files/shardId-0"]


def test_the_files_that_it_names_are_there() -> None:
    for path in re.findall(r"`?((?:docs|examples)/[\w./]+\w)", DOCUMENT.read_text()):
        assert (ROOT / path).exists(), path
