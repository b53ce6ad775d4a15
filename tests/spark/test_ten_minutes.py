"""The ten minutes at the top of docs/spark.md, walked: each block runs as it stands, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local import EmbeddedAws

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
SECTION = DOCUMENT.read_text().partition("## Ten minutes\n")[2].partition("\n## ")[0]
STEP = re.compile(r"^```python\n(?P<program>.*?)^```$|^ {4}(?P<command>sublet [^\n]*)$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"(?:It prints|Among the last lines is) `([^`]+)`")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_block_of_the_ten_minutes_prints_what_the_page_says(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    steps = list(STEP.finditer(SECTION))
    assert [bool(step["program"]) for step in steps] == [True, True, False, True]
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, **embedded_aws.environment, "HOME": str(tmp_path)}
    environment["PATH"] = f"{bin_folder}{os.pathsep}{environment['PATH']}"
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        command = ["python", "-c", step["program"]] if step["program"] else ["bash", "-c", step["command"]]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
        )
        print(step[0], ran.stdout, ran.stderr[-3000:], sep="\n")
        assert ran.returncode == 0
        for text in PRINTED.findall(SECTION, step.end(), following.start() if following else len(SECTION)):
            assert text in ran.stdout.splitlines()
    assert len(PRINTED.findall(SECTION)) == 3
