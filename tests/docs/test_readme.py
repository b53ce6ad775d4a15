"""README keeps its word: its examples run, and what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
ROOT = README.parent


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if "aws_cdk" not in e], ids=lambda e: e.split("\n")[0]
)
def test_example_runs(example: str) -> None:
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own README


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 3
    for example in EXAMPLES:
        ast.parse(example)


def test_paths_that_readme_names_exist() -> None:
    named = re.findall(
        r"`((?:examples|infra|docs|tests|functions|layers|events)/[\w/.-]*)`", README.read_text()
    )
    assert named
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing
