"""docs/migrating-from-*.md: their stacks are made, the one before and the one after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.documents import ROOT, blocks

CODE = {
    "migrating-from-esm": "def handler(event, context): ...\n",
    "migrating-from-kcl": "class RecordProcessor:\n    def process_records(self, given): ...\n",
}


SYNTH = "\nimport json\nprint(json.dumps(app.synth().get_stack_by_name('orders').template))\n"


@pytest.mark.slow
@pytest.mark.parametrize("document", CODE)
def test_its_stacks_are_synthesized(document: str, tmp_path: Path) -> None:
    """Each in a process of its own, whose folder the CDK takes paths from."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers/orders.py").write_text(CODE[document])
    types: set[str] = set()
    for block in blocks(ROOT / f"docs/{document}.md"):
        if block.language == "python":
            types = {each["Type"] for each in synthesized(block.text, tmp_path)["Resources"].values()}
    assert {"AWS::Lambda::Function", "AWS::StepFunctions::StateMachine"} <= types


def synthesized(program: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", program + SYNTH]
    run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    template: dict[str, Any] = json.loads(run.stdout)
    return template


@pytest.mark.parametrize("document", CODE)
def test_each_setting_that_it_names_is_one(document: str) -> None:
    from sublet.settings import DEFINITIONS

    text = (ROOT / f"docs/{document}.md").read_text()
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith("| `")]
    stated = {name for row in rows for name in row.replace(",", " ").split() if name.startswith("`")}
    known = {*DEFINITIONS, "handler_code", "worker_timeout", "worker_reserved_concurrency", "lease_table"}
    others = {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP:<ISO", "mode=continuous"}
    named = {name.strip("`:;") for name in stated}
    assert named <= known | others, os.linesep.join(sorted(named - known - others))
