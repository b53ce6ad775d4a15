"""Finds the contract that a function fits, by its parameters: when a worker starts, and from source when a stack is
synthesized.
"""

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
"""A handler's arguments by contract. A record processor is a class and is called without arguments to make an
instance.
"""

PROCESS_RECORDS = "process_records"
"""The method that a record processor has."""


class Signature(NamedTuple):
    """A function's positional parameters. `most` is None if it takes any number."""

    names: tuple[str, ...]
    least: int
    most: int | None

    def takes(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)


def meant_for_another(signature: Signature, contract: HandlerContract) -> str | None:
    """Why the function is not a handler of this contract, with the contract that it fits; None if it may be one."""
    fits = _meant_for(signature)
    if fits in (None, contract):
        return None
    with_names = ", ".join(CALLED_WITH[contract])
    return f"takes ({', '.join(signature.names)}), but is called with ({with_names}): set handler_contract={fits}"


def _meant_for(signature: Signature) -> HandlerContract | None:
    """Guesses the contract by the number of parameters; if that is ambiguous, by the names that examples of Lambda
    functions use. None means any contract, or none.
    """
    takes = [contract for contract, names in CALLED_WITH.items() if names and signature.takes(len(names))]
    is_lambdas = signature.names[:1] == ("event",) and signature.names[1:2] in (("context",), ("_context",))
    if HandlerContract.LAMBDA_EVENT in takes and is_lambdas:
        return HandlerContract.LAMBDA_EVENT
    return takes[0] if len(takes) == 1 else None


def another_kind(is_processor: bool, contract: HandlerContract) -> str | None:
    """The same check for an object with or without `process_records`, before its parameters are checked."""
    if is_processor and contract is not HandlerContract.RECORD_PROCESSOR:
        return f"has {PROCESS_RECORDS}: set handler_contract={HandlerContract.RECORD_PROCESSOR}"
    return None


def is_processor_in(statement: ast.ClassDef) -> bool:
    """Whether the class defines the method itself. An inherited one shows only at run time."""
    return any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == PROCESS_RECORDS
        for each in statement.body
    )


def signature_of(function: Callable[..., object]) -> Signature | None:
    """The function's own parameters, not those of a function that a decorator wraps. None: a function written in C may
    have no signature.
    """
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is p.empty for p in by_position)
    return Signature(tuple(p.name for p in by_position), least, None if takes_any else len(by_position))


def signature_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature | None:
    """Finds the signature in a function's source. None if it is decorated, since only running the code shows the
    result.
    """
    if function.decorator_list:
        return None
    takes = function.args
    by_position = [*takes.posonlyargs, *takes.args]
    least = len(by_position) - len(takes.defaults)
    return Signature(tuple(arg.arg for arg in by_position), least, None if takes.vararg else len(by_position))
