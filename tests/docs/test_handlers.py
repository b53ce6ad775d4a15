"""docs/handlers.md keeps its word: its examples run, one after the other, and are what mypy takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/handlers.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
PROGRAM = "\n\n".join(EXAMPLES)


@pytest.mark.slow
def test_its_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(PROGRAM, str(DOCUMENT), "exec"), {"__name__": "handlers"})  # noqa: S102 - our own documentation
    assert re.match(r"20 seeds, \d+ records, \d+ of them more than once", capsys.readouterr().out)


@pytest.mark.slow
def test_its_examples_are_typed(tmp_path: Path) -> None:
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


def test_what_it_links_to_is_there() -> None:
    text = DOCUMENT.read_text()
    headings = {
        re.sub(r"[^\w ]", "", line).strip().lower().replace(" ", "-")
        for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\(#([\w-]+)\)", text)) <= headings
    for path in re.findall(r"`?((?:docs|examples)/[\w./]+\w)", text):
        assert (ROOT / path).exists(), path
