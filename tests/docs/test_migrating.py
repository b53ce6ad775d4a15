"""docs/migrating-from-*.md: their stacks synthesize, before and after the migration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sublet import HandlerContract
from sublet.testing import consume

from tests.docs.documents import ROOT, blocks
from tests.exploring import first

CODE = {
    "migrating-from-esm": "def handler(event, context): ...\n",
    "migrating-from-kcl": "class RecordProcessor:\n    def process_records(self, given): ...\n",
}


SYNTHESIZE = """
import json, sys
for program in sys.argv[1:]:
    names = {"__name__": "__main__"}
    exec(program, names)
    print(json.dumps(names["app"].synth().get_stack_by_name("orders").template))
"""


@pytest.mark.slow
@pytest.mark.parametrize("document", first(0, CODE))
def test_example_stacks_are_synthesized(document: str, tmp_path: Path) -> None:
    """In a separate process, because the CDK resolves paths from its folder."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers/orders.py").write_text(CODE[document])
    programs = [block.text for block in blocks(ROOT / f"docs/{document}.md") if block.language == "python"]
    *_, after = synthesized(programs, tmp_path)
    types = {each["Type"] for each in after["Resources"].values()}
    assert {"AWS::Lambda::Function", "AWS::StepFunctions::StateMachine"} <= types


def test_example_after_a_mapping_starts_at_a_timestamp_without_a_maximum_age() -> None:
    *_, after = (b for b in blocks(ROOT / "docs/migrating-from-esm.md") if b.language == "python")
    assert re.search(r'start_position=StartPosition.parse\("AT_TIMESTAMP:', after.text)
    assert "maximum_record_age" not in after.text


def test_bad_record_of_twenty_that_is_named_sets_thirteen_aside() -> None:
    """As the page says. If the handler raises instead, only the bad record is set aside."""
    bad = b"7"

    def data_of(record: dict[str, Any]) -> bytes:
        return b64decode(record["kinesis"]["data"])

    def names(event: dict[str, Any], context: object) -> object:
        failed = [each["kinesis"]["sequenceNumber"] for each in event["Records"] if data_of(each) == bad]
        return {"batchItemFailures": [{"itemIdentifier": number} for number in failed]}

    def raises(event: dict[str, Any], context: object) -> None:
        if bad in map(data_of, event["Records"]):
            raise ValueError("bad")

    def set_aside(handler: Callable[..., object]) -> list[bytes]:
        done = consume(
            handler,
            [str(number).encode() for number in range(20)],
            handler_contract=HandlerContract.LAMBDA_EVENT,
            maximum_retry_attempts=2,
            bisect_batch_on_function_error=True,
            on_failure="arn:aws:sqs:eu-west-1:123456789012:failed",
        )
        return [record.data for aside in done.set_aside for record in aside.records]

    assert set_aside(names) == [str(number).encode() for number in range(7, 20)]
    assert set_aside(raises) == [bad]


def synthesized(programs: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", SYNTHESIZE, *programs]
    run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("document", CODE)
def test_migrating_names_existing_settings(document: str) -> None:
    from sublet.settings import DEFINITIONS

    text = (ROOT / f"docs/{document}.md").read_text()
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| `")]
    stated = {name for row in rows for name in row.replace(",", " ").split() if name.startswith("`")}
    known = {*DEFINITIONS, "handler_code", "worker_timeout", "worker_reserved_concurrency", "lease_table"}
    others = {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP:<ISO", "mode=continuous"}
    named = {name.strip("`:;") for name in stated}
    assert named <= known | others, os.linesep.join(sorted(named - known - others))
