"""How far the engine's classes reach through what they have: `self.a.b.c`, and more.

A class that does this was given a bag, and uses what is in it. It should be given what it uses. Both bounds only go
down. `python -m pytest -s tests/unit/engine/test_chains.py` prints the chains.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import sublet

SUBLET = Path(sublet.__file__).parent
LONG = 3

WRITTEN_OUT = 14
THROUGH_LOCALS = 149
"""Also counts `b.c` where the function has said `b = self.a.b`. Some of these are wanted: a snapshot is taken once."""

Names = tuple[str, ...]


def names_of(node: ast.expr) -> Names:
    """`a.b.c` as a, b, c; empty for what is not only names."""
    if isinstance(node, ast.Attribute):
        before = names_of(node.value)
        return (*before, node.attr) if before else ()
    return (node.id,) if isinstance(node, ast.Name) else ()


def assigned(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target and its value, of `x, y = a, b` too."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from zip(target.elts, node.value.elts, strict=True)
                else:
                    yield target, node.value


def chains(source: str, *, through_locals: bool) -> Iterator[str]:
    """Each longest chain that begins at self, with its line."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    for function in [each for one in classes for each in one.body if isinstance(each, ast.FunctionDef)]:
        means: dict[str, Names] = {"self": ("self",)}
        for target, value in assigned(function) if through_locals else ():
            names = names_of(value)
            if isinstance(target, ast.Name) and len(names) > 1 and names[0] in means:
                means[target.id] = (*means[names[0]], *names[1:])
        inner = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and id(node) not in inner:
                names = names_of(node)
                whole = (*means[names[0]], *names[1:]) if names and names[0] in means else ()
                if len(whole) > LONG:
                    yield f"{node.lineno} {'.'.join(whole)}"


def of_the_engine(*, through_locals: bool) -> list[str]:
    return [
        f"{file.relative_to(SUBLET)}:{chain}"
        for file in sorted((SUBLET / "engine").rglob("*.py"))
        for chain in chains(file.read_text(), through_locals=through_locals)
    ]


@pytest.mark.parametrize(
    ("through_locals", "most"), [(False, WRITTEN_OUT), (True, THROUGH_LOCALS)], ids=["written out", "through locals"]
)
def test_engine_classes_use_what_they_are_given(through_locals: bool, most: int) -> None:
    found = of_the_engine(through_locals=through_locals)
    print(*found, sep="\n")
    assert len(found) <= most


@pytest.mark.parametrize(
    ("line", "written_out", "through_locals"),
    [
        ("self.a.b.c()", ["3 self.a.b.c"], ["3 self.a.b.c"]),
        ("self.a.b()", [], []),
        ("b = self.a.b; b.c; b.d.e", [], ["3 self.a.b.c", "3 self.a.b.d.e"]),
        ("x, a = self.x, self.a; a.b.c", [], ["3 self.a.b.c"]),
        ("other.a.b.c; f(self).a.b.c", [], []),
    ],
)
def test_chain_is_counted_where_it_begins_at_self(line: str, written_out: list[str], through_locals: list[str]) -> None:
    source = f"class A:\n    def f(self):\n        {line}\n"
    assert list(chains(source, through_locals=False)) == written_out
    assert list(chains(source, through_locals=True)) == through_locals
