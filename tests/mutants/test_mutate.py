"""The mistakes that are made are the ones that are meant, one at a time, and nothing else of the file changes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutate import mutants_of

CASES = {
    "x = a < b": {"x = a >= b", "x = a <= b"},
    "x = a is None": {"x = a is not None"},
    "x = a and b": {"x = a or b", "x = a", "x = b"},
    "if a:\n    b()": {"if not a:\n    b()", "if a:\n    pass"},
    "x = a + timedelta(b)": {"x = a - timedelta(b)"},
    "x = all_of(a, b)": {"x = all_of(b)", "x = all_of(a)"},
    "x = {a: b, **c}": {"x = {**c}", "x = {a: b}"},
    "x = (a, b)": {"x = (b,)", "x = (a,)"},
    "a, b = x": set(),
    "x = 3": {"x = 4"},
    "x = True": {"x = False"},
    "raise a": {"pass"},
    "a += b": {"pass"},
    "def f(a: Literal[1]) -> Literal[2]:\n    '''Doc.'''": set(),
    "assert a < b": set(),
}


@pytest.mark.parametrize("source", CASES)
def test_each_mistake_is_made_by_itself(source: str, tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text(source)
    assert {mutant.source for mutant in mutants_of(file)} == CASES[source]
    assert file.read_text() == source


def test_every_mutant_of_a_rule_is_another_program(tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text(
        "def f(a, b):\n    if a and b < 3:\n        return a - b\n    return 0 if a is None else b\n"
    )
    made = [mutant.source for mutant in mutants_of(file)]
    assert len(set(made)) == len(made) == 11
    assert all(ast.dump(ast.parse(source)) != ast.dump(ast.parse(file.read_text())) for source in made)
