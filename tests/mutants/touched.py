"""Finds which tests run which lines of the rules, and for how long, so that each mutant meets only the tests that run
it.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from tests.mutants.mutate import Mutant

Line = tuple[str, int]


@dataclass(slots=True)
class Touched:
    """`seconds`: by test, how long it took while it was watched."""

    files: frozenset[str]
    by_line: dict[Line, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def watching(self, test: str) -> Iterator[None]:
        """In this thread, and in those started meanwhile."""

        def enter(frame: FrameType, event: str, argument: object) -> Any:
            return line if frame.f_code.co_filename in self.files else None

        def line(frame: FrameType, event: str, argument: object) -> Any:
            self.by_line.setdefault((frame.f_code.co_filename, frame.f_lineno), set()).add(test)
            return line

        threading.settrace(enter)
        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run its statement: first those with the file's own name, then the quick ones."""
        found = set[str]()
        for number in _statement(mutant.file, mutant.line):
            found |= self.by_line.get((str(mutant.file), number), set())
        own = f"test_{mutant.file.stem}.py"
        return sorted(found, key=lambda test: (own not in test, self.seconds.get(test, 0.0)))


def _statement(file: Path, line: int) -> range:
    """The lines of the innermost statement there; for a compound statement, its head."""
    within = [node for node in _statements(file) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    innermost = max(within, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    body = getattr(innermost, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) else innermost.end_lineno or innermost.lineno
    return range(innermost.lineno, max(last, innermost.lineno) + 1)


@cache
def _statements(file: Path) -> tuple[ast.stmt, ...]:
    return tuple(node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.stmt))
