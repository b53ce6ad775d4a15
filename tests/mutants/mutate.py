"""Every small mistake in a file: comparisons flipped, boundaries moved, conditions, statements and signs lost.

Ours, because two in five mutants here lack a statement, a condition or an entry: mutmut (3.8) and cosmic-ray (8.7) drop
none. mutmut also leaves code outside functions alone, and functions with a decorator other than staticmethod or
classmethod: one in ten. cosmic-ray writes each mutant into the file that you are editing, and starts the same command
for every one. Both exclude all mutants of a line, by a comment there; known.txt names single ones, with reasons.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
TURNED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FOR_READERS = frozenset({"annotation", "returns", "decorator_list", "type_params", "bases"})

Change = tuple[str, Callable[[], ast.AST]]
"""Its name, and a function that makes the node's replacement."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of a file, the `number`th. `statement`: the first line of its statement."""

    file: Path
    number: int
    line: int
    kind: str
    was: str
    statement: str
    made: Callable[[], ast.AST]

    @property
    def source(self) -> str:
        """The whole file with the change."""
        return ast.unparse(ast.fix_missing_locations(self.made()))

    @property
    def name(self) -> str:
        return f"{self.line}: {self.text}"

    @property
    def text(self) -> str:
        """Describes it independently of its line."""
        within = "" if self.statement.startswith(self.was) else f" | {self.statement}"
        return f"{place(self.file)} {self.kind}: {self.was}{within}"


def place(file: Path) -> Path:
    """The file's path within the library's package; of any other file, its folder and name."""
    parts = file.parts[:-1]
    start = len(parts) - parts[::-1].index("sublet") if "sublet" in parts else len(parts) - 1
    return Path(*file.parts[start:])


def mutants_of(file: Path) -> Iterator[Mutant]:
    """In the file's order, always the same ones."""
    tree = ast.parse(file.read_text())
    made = [(node, within, *change) for node, within in _code(tree) for change in changes(node)]
    for number, (node, statement, kind, make) in enumerate(made):
        was = " ".join(ast.unparse(node).split())[:110]
        within = ast.unparse(statement).split("\n", 1)[0][:110]
        yield Mutant(file, number, getattr(node, "lineno", 0), kind, was, within, partial(_with, tree, node, make))


def changes(node: ast.AST) -> Iterator[Change]:
    """All changes of one node."""
    match node:
        case ast.Compare() | ast.BoolOp():
            yield from _changes_of_a_condition(node)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "branches swapped", partial(_changed, node, test=ast.UnaryOp(ast.Not(), test))
        case ast.BinOp(op=op) if type(op) in TURNED:
            yield "sign turned", partial(_changed, node, op=TURNED[type(op)]())
        case ast.Constant(value=bool() as value):
            yield "turned", partial(ast.Constant, not value)
        case ast.Constant(value=int() as value):
            yield "one more", partial(ast.Constant, value + 1)
        case ast.Dict() | ast.Tuple() | ast.Call():
            yield from _changes_of_a_collection(node)
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            yield "dropped", ast.Pass
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "dropped", ast.Pass


def _changes_of_a_condition(node: ast.Compare | ast.BoolOp) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[op]):
            for kind, others in (("flipped", FLIPPED), ("boundary moved", SHIFTED)):
                if type(op) in others:
                    yield kind, partial(_changed, node, ops=[others[type(op)]()])
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or swapped", partial(_changed, node, op=other)
            for number in range(len(values)):
                yield f"condition {number + 1} removed", partial(_changed, node, values=_but(values, number))


def _changes_of_a_collection(node: ast.Dict | ast.Tuple | ast.Call) -> Iterator[Change]:
    match node:
        case ast.Dict(keys=keys, values=values):
            for number in range(len(keys)):
                others = {"keys": _but(keys, number), "values": _but(values, number)}
                yield f"entry {number + 1} removed", partial(_changed, node, **others)
        case ast.Tuple(elts=elements, ctx=ast.Load()):
            for number in range(len(elements)):
                yield f"element {number + 1} removed", partial(_changed, node, elts=_but(elements, number))
        case ast.Call(func=ast.Name(id="all_of" | "any_of"), args=clauses) if len(clauses) > 1:
            for number in range(len(clauses)):
                yield f"clause {number + 1} removed", partial(_changed, node, args=_but(clauses, number))


def _but(items: list[Any], number: int) -> list[Any]:
    return items[:number] + items[number + 1 :]


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    return type(node)(**(dict(ast.iter_fields(node)) | fields))


def _with(tree: ast.AST, old: ast.AST, make: Callable[[], ast.AST]) -> ast.AST:
    """The tree with one node replaced; the original tree stays unchanged."""
    return deepcopy(tree, {id(old): make()})


def _code(node: ast.AST, statement: ast.AST | None = None) -> Iterator[tuple[ast.AST, ast.AST]]:
    """All nodes with their statements, except those only for people and type checkers, decorators, and assertions."""
    for name, value in ast.iter_fields(node):
        if name in FOR_READERS or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_for_readers(child, name):
                within = child if isinstance(child, ast.stmt) or statement is None else statement
                yield child, within
                yield from _code(child, within)


def _is_for_readers(node: ast.AST, where: str) -> bool:
    """Includes a generic's types, imports that are never executed, and whether a dataclass' field may be passed to
    its constructor."""
    match node:
        case ast.Assert() | ast.ImportFrom() | ast.Import() | ast.keyword(arg="init"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return where == "slice" and isinstance(node, ast.Tuple)
