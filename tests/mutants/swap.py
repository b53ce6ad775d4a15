"""Replaces the real function by a mutant's in a process that has everything loaded, so that nothing is imported
again.

Code of a module or a class outside of functions cannot be swapped: it ran when the module was loaded.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutants.mutate import Mutant

Name = tuple[str, str]
"""A function's file, and its qualified name there."""

_TAKES_ARGUMENTS = 0x02
"""CO_NEWLOCALS: a function's code, and not a class' or a module's."""


@dataclass(frozen=True, slots=True)
class Swap:
    functions: tuple[FunctionType, ...]
    code: CodeType

    def make(self) -> None:
        """Permanent, so use it in a separate process."""
        for function in self.functions:
            function.__code__ = self.code


@dataclass(slots=True)
class Swaps:
    """`functions`: the live ones, as of when this was created."""

    functions: Mapping[Name, list[FunctionType]]

    @classmethod
    def of(cls, files: Iterable[Path]) -> Swaps:
        wanted, found = {str(file) for file in files}, dict[Name, list[FunctionType]]()
        gc.unfreeze()  # what a test has frozen, as a runtime does, is not among the objects
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in wanted:
                found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
        return cls(found)

    def of_mutant(self, mutant: Mutant) -> Swap | None:
        """None if it is not in a live function."""
        changed = _changed(mutant)
        if changed is None:
            return None
        was, now = changed
        live = self.functions.get((was.co_filename, was.co_qualname), [])
        found = live if _is_one(live) else [each for each in live if _is_same(each.__code__, was)]
        return Swap(tuple(found), now) if found else None


def is_in_function(mutant: Mutant) -> bool:
    return _changed(mutant) is not None


def _changed(mutant: Mutant) -> tuple[CodeType, CodeType] | None:
    """The only function that differs, before and after; None if it is not exactly one."""
    was, now = _original(mutant.file), _compiled(mutant.source, mutant.file)
    while not was.co_flags & _TAKES_ARGUMENTS:
        inner = list(zip(_inner(was), _inner(now), strict=False))
        different = [(old, new) for old, new in inner if not _is_same(old, new)]
        if len(different) != 1 or not _is_same(was, now, whole=False):
            return None
        ((was, now),) = different
    return was, now


@cache
def _original(file: Path) -> CodeType:
    return _compiled(ast.unparse(ast.parse(file.read_text())), file)


def _compiled(source: str, file: Path) -> CodeType:
    return compile(source, str(file), "exec")


def _is_one(live: Iterable[FunctionType]) -> bool:
    """True unless two functions have the same name. Its code may differ from ours in lines only: a statement over
    several takes more."""
    return len({function.__code__ for function in live}) == 1


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_same(one: CodeType, other: CodeType, *, whole: bool = True) -> bool:
    """Ignores line numbers. `whole`: includes nested code."""
    if _told(one) != _told(other) or len(one.co_consts) != len(other.co_consts):
        return False
    for ours, theirs in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(ours, CodeType) and isinstance(theirs, CodeType):
            if whole and not _is_same(ours, theirs):
                return False
        elif repr(ours) != repr(theirs):
            return False
    return True


def _told(code: CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
