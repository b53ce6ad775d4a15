"""Which contract a function is meant for, by what it takes: at the worker's start, and from its source when a stack is made."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sublet.settings import HandlerContract

CALLED_WITH: Mapping[HandlerContract, tuple[str, ...]] = {
    HandlerContract.BATCH: ("batch",),
    HandlerContract.LAMBDA_EVENT: ("event", "context"),
    HandlerContract.RECORD_PROCESSOR: (),
}
"""What a handler is called with, by its contract; of a record processor it is the class, which makes an instance."""

PROCESS_RECORDS = "process_records"
"""What tells a record processor."""


class Signature(NamedTuple):
    """What a function takes by position. `most` is None if it takes any number."""

    names: tuple[str, ...]
    least: int
    most: int | None

    def takes(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)


def meant_for_another(signature: Signature, contract: HandlerContract) -> str | None:
    """Why it is no handler of this contract, and the name of the one that it is one of; None: nothing speaks against it."""
    fits = _meant_for(signature)
    if fits in (None, contract):
        return None
    with_names = ", ".join(CALLED_WITH[contract])
    return f"takes ({', '.join(signature.names)}), but is called with ({with_names}): set handler_contract={fits}"


def _meant_for(signature: Signature) -> HandlerContract | None:
    """By its number of arguments; where that leaves it open, by their names in everybody's examples of Lambda functions.

    None: for any, or for none.
    """
    takes = [contract for contract, names in CALLED_WITH.items() if names and signature.takes(len(names))]
    is_lambdas = signature.names[:1] == ("event",) and signature.names[1:2] in (("context",), ("_context",))
    if HandlerContract.LAMBDA_EVENT in takes and is_lambdas:
        return HandlerContract.LAMBDA_EVENT
    return takes[0] if len(takes) == 1 else None


def another_kind(is_processor: bool, contract: HandlerContract) -> str | None:
    """The same of what has or lacks `process_records`, before a look at what it takes."""
    if is_processor and contract is not HandlerContract.RECORD_PROCESSOR:
        return f"has {PROCESS_RECORDS}: set handler_contract={HandlerContract.RECORD_PROCESSOR}"
    return None


def is_processor_in(statement: ast.ClassDef) -> bool:
    """A class whose source has the function; what it inherits, only a run of the code can tell."""
    return any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == PROCESS_RECORDS
        for each in statement.body
    )


def signature_of(function: Callable[..., object]) -> Signature | None:
    """What it takes when it is called as it is: not what a decorator wraps. None: one written in C may not tell."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is p.empty for p in by_position)
    return Signature(tuple(p.name for p in by_position), least, None if takes_any else len(by_position))


def signature_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature | None:
    """The same of a function's source. None: what a decorator makes of it, only a run of the code can tell."""
    if function.decorator_list:
        return None
    takes = function.args
    by_position = [*takes.posonlyargs, *takes.args]
    least = len(by_position) - len(takes.defaults)
    return Signature(tuple(arg.arg for arg in by_position), least, None if takes.vararg else len(by_position))
